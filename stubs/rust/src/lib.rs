//! A typed client of the monopath service, which turns images into the features that a vision-language model's encoder
//! reads.
//!
//! A stream takes one preprocessing path, and its type says which: a [`Stream`]`<DeferredCpu>` takes images for the
//! server's CPU, a `Stream<DeferredCuda>` images for its GPU, a `Stream<Local>` features that this side has finished.
//!
//! ```no_run
//! # async fn example() -> Result<(), monopath::Error> {
//! use monopath::{Client, Config, DataType, DeferredCpu, Image};
//!
//! let client = Client::connect("127.0.0.1:50051");
//! let mut stream = client.open::<DeferredCpu>(Config::preset("kimi-k3", DataType::Bfloat16)).await?;
//! let mut results = stream.map([Image::encoded("one", vec![0xff, 0xd8])]);
//! while let Some(result) = results.next().await? {
//!     match result.end {
//!         Ok(features) => println!("{}: {} tokens", result.label, features.plan.token_count),
//!         Err(error) => println!("{error}"),
//!     }
//! }
//! println!("{:?}", stream.finish().await?);
//! # Ok(())
//! # }
//! ```
//!
//! A bad image is a value, and neither its stream nor its neighbours notice. A stream that is refused or broken ends with
//! an [`Error`].
//!
//! To send an item on a stream of another path is an error of the compiler:
//!
//! ```compile_fail,E0308
//! # use monopath::{DeferredCpu, DeferredCuda, Error, Image, Stream};
//! async fn mixed(stream: &mut Stream<DeferredCpu>, image: Image<DeferredCuda>) -> Result<i32, Error> {
//!     stream.send(image).await
//! }
//! ```
//!
//! So is to put results of two paths together:
//!
//! ```compile_fail,E0308
//! # use monopath::{DeferredCpu, DeferredCuda, ItemResult};
//! fn mixed(cpu: ItemResult<DeferredCpu>, cuda: ItemResult<DeferredCuda>) {
//!     let _ = vec![cpu, cuda];
//! }
//! ```
//!
//! and to send finished features where images are taken, or images where the features are:
//!
//! ```compile_fail,E0308
//! # use monopath::{Error, Image, Local, Stream};
//! async fn mixed(stream: &mut Stream<Local>) -> Result<i32, Error> {
//!     stream.send(Image::encoded("one", vec![])).await
//! }
//! ```
//!
//! The messages themselves are in [`v1`], whose comments are the contract.

#![warn(missing_docs)]

#[cfg(target_endian = "big")]
compile_error!("features are little-endian, and are shown as they came: expected a little-endian machine");

mod client;
mod config;
mod error;
mod features;
mod float16;
mod item;
mod map;
mod path;
mod session;
pub mod status;
mod stream;
pub mod transport;

/// The contract's messages. Generated: their comments are those of `protos/monopath/v1`.
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
pub mod v1 {
    include!("v1/monopath.v1.rs");
}

/// What the contract says of each error reason.
#[rustfmt::skip]
mod reasons {
    include!("v1/reasons.rs");
}

pub use client::Client;
pub use config::Config;
pub use error::{Error, ItemError, StreamError};
pub use features::{Element, FeatureBytes, Features};
pub use float16::{bfloat16_to_f32, f32_to_bfloat16, float16_to_f32};
pub use item::{Image, LocalFeatures, Pixels};
pub use map::Map;
pub use path::{DeferredCpu, DeferredCuda, Local, Path};
pub use session::{Event, ItemResult};
pub use stream::Stream;
pub use v1::{DataType, PixelFormat, ResultOrder};
