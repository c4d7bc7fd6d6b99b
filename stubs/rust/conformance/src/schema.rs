//! The contract's messages, by their names.

use std::collections::HashMap;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// The contract's messages and enums, by their full names with a dot before them, and its methods by their short ones.
pub struct Schema {
    messages: HashMap<String, DescriptorProto>,
    enums: HashMap<String, EnumDescriptorProto>,
    methods: HashMap<String, Method>,
}

/// A method of the contract.
pub struct Method {
    /// `/package.Service/Method`
    pub path: String,
    /// Full name of its request, with a dot before it.
    pub request: String,
    /// Full name of its response, with a dot before it.
    pub response: String,
}

impl Schema {
    /// The schema that this program was built with.
    pub fn of_contract() -> Result<Self, prost::DecodeError> {
        let files = FileDescriptorSet::decode(&include_bytes!(concat!(env!("OUT_DIR"), "/contract.binpb"))[..])?;
        let mut schema = Schema { messages: HashMap::new(), enums: HashMap::new(), methods: HashMap::new() };
        for file in files.file {
            let package = file.package().to_owned();
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{package}.{}/{}", service.name(), method.name());
                    let (request, response) = (method.input_type().to_owned(), method.output_type().to_owned());
                    schema.methods.insert(method.name().to_owned(), Method { path, request, response });
                }
            }
            for message in file.message_type {
                schema.messages.insert(format!(".{package}.{}", message.name()), message);
            }
            for found in file.enum_type {
                schema.enums.insert(format!(".{package}.{}", found.name()), found);
            }
        }
        Ok(schema)
    }

    pub fn method(&self, name: &str) -> Result<&Method, String> {
        self.methods.get(name).ok_or_else(|| format!("Expected a method of the contract, got {name:?}"))
    }

    pub fn message(&self, name: &str) -> Result<&DescriptorProto, String> {
        self.messages.get(name).ok_or_else(|| format!("Expected a message of the contract, got {name:?}"))
    }

    /// The number of an enum's value; `None` for a name that it does not have.
    pub fn number(&self, name: &str, value: &str) -> Option<i32> {
        let values = &self.enums.get(name)?.value;
        values.iter().find(|found| found.name() == value).map(|found| found.number())
    }

    /// The name of an enum's value; `None` for a number that it does not have.
    pub fn value(&self, name: &str, number: i32) -> Option<&str> {
        let values = &self.enums.get(name)?.value;
        values.iter().find(|found| found.number() == number).map(|found| found.name())
    }
}

pub fn is_repeated(field: &FieldDescriptorProto) -> bool {
    field.label() == Label::Repeated
}

/// An unset field differs from one with its default value.
pub fn has_presence(field: &FieldDescriptorProto) -> bool {
    field.oneof_index.is_some() || (field.r#type() == Type::Message && !is_repeated(field))
}
