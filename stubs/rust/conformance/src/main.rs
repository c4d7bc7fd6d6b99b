//! Runs the contract's vectors with the Rust client's transport and messages.
//!
//! It reads one job a line on stdin, `{"address": ..., "vector": {...}}`, and writes one answer a line on stdout, in order.
//! It ends with exit code 0 at the end of stdin. What a request is made of is not looked at by the transport, so that it can
//! also send what no typed client would.

mod exchange;
mod protojson;
mod schema;
mod vector;
mod wire;

use std::io::{self, BufRead, Write};

use serde_json::{json, Value};

use crate::schema::Schema;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = Schema::of_contract()?;
    for line in io::stdin().lock().lines() {
        let job: Value = serde_json::from_str(&line?)?;
        let name = &job["vector"]["name"];
        let answer = match vector::run(&schema, &job).await {
            Ok((responses, status)) => json!({"name": name, "responses": responses, "status": status}),
            // Whatever goes wrong on this side is told as the reason that the vector was skipped for.
            Err(why) => json!({"name": name, "skipped": why}),
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}
