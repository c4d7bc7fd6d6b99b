//! How calls travel. [`Channel`] is gRPC over one HTTP/2 connection; another gRPC library can take its place by these two
//! traits.

mod call;
mod channel;
mod framing;
mod trailers;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::poll_fn;

pub use self::channel::{Channel, Io};
use crate::status::Status;

/// A boxed future that any thread may run.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens calls at a server.
pub trait Transport: Send + Sync {
    /// Begins a call of a method, `/package.Service/Method`, which ends with DEADLINE_EXCEEDED at its deadline.
    ///
    /// The error is a status of UNAVAILABLE where no server is reached.
    fn open<'a>(&'a self, method: &'a str, deadline: Option<Instant>) -> BoxFuture<'a, Result<Box<dyn Call>, Status>>;
}

/// One call, which is cancelled when it is dropped before its end. Messages are serialised protobuf.
pub trait Call: Send {
    /// Queues a message behind those that were not sent yet. It is dropped where the call has ended.
    fn push(&mut self, message: Bytes);

    /// Half-closes behind what is queued. Harmless when repeated.
    fn half_close(&mut self);

    /// Sends what is queued. Ready when nothing is left of it, or when the call takes no more: why is then told by
    /// `poll_message`.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Takes the next message of the server. `None` is the end with the status OK, an error any other end.
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>>;
}

/// Takes the next message of the server, as `poll_message` does, and sends what is queued meanwhile.
pub async fn next_message(call: &mut dyn Call) -> Result<Option<Bytes>, Status> {
    poll_fn(|context| {
        // Whether all was sent, the call's end tells.
        let _ = call.poll_flush(context);
        call.poll_message(context)
    })
    .await
}
