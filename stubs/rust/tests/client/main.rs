//! The client against a server of gRPC in this process, which plays a script for each stream.

mod channel;
mod ends;
mod fake_server;
mod messages;
mod streams;
