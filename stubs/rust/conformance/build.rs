//! Makes the contract's schema, in which the program looks up what JSON does not say.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../protos");
    let out = env::var_os("OUT_DIR").expect("cargo says where to");
    let mut sources = Vec::new();
    for entry in fs::read_dir(protos.join("monopath/v1")).expect("the contract is in its place") {
        sources.push(entry.expect("the contract can be read").path());
    }
    sources.sort();
    println!("cargo:rerun-if-changed={}", protos.display());
    let status = Command::new("protoc")
        .arg("-I")
        .arg(&protos)
        .arg("--include_imports")
        .arg("--descriptor_set_out")
        .arg(Path::new(&out).join("contract.binpb"))
        .args(&sources)
        .status()
        .expect("protoc can be started: apt-get install protobuf-compiler");
    assert!(status.success(), "Expected protoc to make the schema, got {status}");
}
