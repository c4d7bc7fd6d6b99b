//! Writes the Rust code of the contract: `monopath-generate PROTOS OUTDIR`.
//!
//! `monopath.v1.rs` holds the messages, as prost makes them, and `reasons.rs` what the contract's option `traits` says
//! of each error reason, which prost does not read.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let (protos, out) = match arguments.as_slice() {
        [protos, out] => (protos, out),
        _ => return Err(format!("Expected PROTOS and OUTDIR, got {} arguments", arguments.len()).into()),
    };
    let mut sources: Vec<PathBuf> = fs::read_dir(protos.join("monopath/v1"))?
        .map(|entry| entry.map(|found| found.path()))
        .collect::<Result<_, _>>()?;
    sources.retain(|source| source.extension().map_or(false, |extension| extension == "proto"));
    sources.sort();
    let schema = out.join("schema.binpb");
    prost_build::Config::new()
        // A chunk's bytes are then a part of the message that was received, and are copied only to where they belong.
        .bytes(["."])
        .out_dir(out)
        .file_descriptor_set_path(&schema)
        .compile_protos(&sources, &[protos])?;
    let reasons = reasons(&schema)?;
    fs::remove_file(schema)?;
    fs::write(out.join("reasons.rs"), reasons)?;
    Ok(())
}

/// The code that says of each reason what its option says.
fn reasons(schema: &Path) -> Result<String, Box<dyn Error>> {
    let schema = Schema::decode(fs::read(schema)?.as_slice())?;
    let mut code = String::from("// Generated from protos/monopath/v1. Do not edit: run generate.sh.\n");
    for name in ["ItemErrorReason", "StreamErrorReason"] {
        let found = schema.files.iter().flat_map(|file| &file.enums).find(|found| found.name == name);
        let reasons = found.ok_or_else(|| format!("Expected an enum {name} in the contract, got none"))?;
        code += &format!(
            "\n/// The number of the gRPC status code of a reason, and whether the same may succeed later, unchanged.\n\
             pub(crate) fn {}_traits(reason: crate::v1::{name}) -> (i32, bool) {{\n    match reason {{\n",
            if name == "ItemErrorReason" { "item" } else { "stream" }
        );
        for value in &reasons.values {
            let traits = value.options.as_ref().and_then(|options| options.traits.clone()).unwrap_or_default();
            // GRPC_CODE_UNSPECIFIED is that of no reason: UNKNOWN.
            let number = if traits.code == 0 { 2 } else { traits.code };
            code += &format!(
                "        crate::v1::{name}::{} => ({number}, {}),\n",
                variant(name, &value.name),
                traits.retryable
            );
        }
        code += "    }\n}\n";
    }
    Ok(code)
}

/// A variant's name, as prost gives it: without the enum's name before it, in camel case.
fn variant(enumeration: &str, value: &str) -> String {
    let camel: String = value.split('_').map(|word| word[..1].to_owned() + &word[1..].to_lowercase()).collect();
    camel[enumeration.len()..].to_owned()
}

// `google.protobuf.FileDescriptorSet`, as far as it leads to the option: prost's own type drops options that it does not
// know.

#[derive(Clone, PartialEq, Message)]
struct Schema {
    #[prost(message, repeated, tag = "1")]
    files: Vec<File>,
}

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "5")]
    enums: Vec<Enumeration>,
}

#[derive(Clone, PartialEq, Message)]
struct Enumeration {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "3")]
    options: Option<Options>,
}

#[derive(Clone, PartialEq, Message)]
struct Options {
    /// `monopath.v1.traits`
    #[prost(message, optional, tag = "74213")]
    traits: Option<Traits>,
}

/// `monopath.v1.ReasonTraits`
#[derive(Clone, PartialEq, Message)]
struct Traits {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(bool, tag = "2")]
    retryable: bool,
}
