//! Writes the features of one image to a file: `preprocess ADDRESS PRESET IMAGE OUT`.

use std::process::ExitCode;
use std::{env, error::Error, fs};

use monopath::{Client, Config, DataType, DeferredCpu, Event, Image};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match preprocess().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn preprocess() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (address, preset, image, out) = match arguments.as_slice() {
        [address, preset, image, out] => (address, preset, image, out),
        _ => return Err(format!("Expected ADDRESS PRESET IMAGE OUT, got {} arguments", arguments.len()).into()),
    };
    let client = Client::connect(address);
    let mut stream = client.open::<DeferredCpu>(Config::preset(preset, DataType::Bfloat16)).await?;
    stream.send(Image::encoded(image.as_str(), fs::read(image)?)).await?;
    stream.close_send();
    while let Some(event) = stream.next_event().await? {
        match event {
            Event::Plan { label, plan, .. } => println!("{label}: {} tokens", plan.token_count),
            Event::Result(result) => {
                let features = result.end?;
                fs::write(out, &*features.bytes)?;
                println!("{out}: {} bytes", features.bytes.len());
            }
        }
    }
    Ok(())
}
