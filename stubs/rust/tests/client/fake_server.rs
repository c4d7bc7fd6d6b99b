//! A server over pipes in memory: each call that comes is given to the next script.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::future::poll_fn;
use h2::server::{self, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use monopath::transport::{Channel, Io};
use monopath::Client;
use prost::Message;
use tokio::io::{duplex, DuplexStream};
use tokio::sync::Notify;

const PIPE_BYTES: usize = 64 << 10;

/// What the server does with a call.
pub type Script = Box<dyn FnOnce(Side) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Makes a script of an async function.
pub fn script<F>(play: impl FnOnce(Side) -> F + Send + 'static) -> Script
where
    F: Future<Output = ()> + Send + 'static,
{
    Box::new(move |side| Box::pin(play(side)))
}

/// Counts what came to a server.
#[derive(Clone, Default)]
pub struct Seen {
    connections: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl Seen {
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A client whose calls are answered by the scripts, one after another.
pub fn client(scripts: impl IntoIterator<Item = Script>) -> (Client, Seen) {
    let (channel, seen) = channel(scripts);
    (Client::new(channel), seen)
}

/// A channel whose calls are answered by the scripts, one after another.
pub fn channel(scripts: impl IntoIterator<Item = Script>) -> (Channel, Seen) {
    let scripts = Arc::new(Mutex::new(scripts.into_iter().collect::<VecDeque<_>>()));
    let seen = Seen::default();
    let counted = seen.clone();
    let channel = Channel::over("server.test", move || {
        let (here, there) = duplex(PIPE_BYTES);
        seen.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(serve(there, Arc::clone(&scripts), seen.clone()));
        Box::pin(async move { Ok(Box::new(here) as Box<dyn Io>) })
    });
    (channel, counted)
}

async fn serve(pipe: DuplexStream, scripts: Arc<Mutex<VecDeque<Script>>>, seen: Seen) {
    let mut connection = server::handshake(pipe).await.unwrap();
    let leaving = Arc::new(Notify::new());
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            () = leaving.notified() => {
                connection.graceful_shutdown();
                continue;
            }
        };
        let (request, respond) = match accepted {
            Some(Ok(call)) => call,
            _ => return,
        };
        seen.calls.fetch_add(1, Ordering::SeqCst);
        let script = match scripts.lock().unwrap().pop_front() {
            Some(script) => script,
            // The connection is lost with this.
            None => return,
        };
        let (head, requests) = request.into_parts();
        let head = Request::from_parts(head, ());
        let leaving = Arc::clone(&leaving);
        tokio::spawn(script(Side { head, requests, buffer: BytesMut::new(), respond, responses: None, leaving }));
    }
}

/// The server's side of a call.
pub struct Side {
    /// The headers of the call.
    pub head: Request<()>,
    requests: RecvStream,
    buffer: BytesMut,
    respond: SendResponse<Bytes>,
    responses: Option<SendStream<Bytes>>,
    leaving: Arc<Notify>,
}

impl Side {
    /// The next request; `None` for the half-close, and for a call that was cancelled.
    pub async fn hear<M: Message + Default>(&mut self) -> Option<M> {
        loop {
            if let Some(mut prefix) = self.buffer.get(1..5) {
                let length = prefix.get_u32() as usize;
                if self.buffer.len() >= 5 + length {
                    self.buffer.advance(5);
                    return Some(M::decode(self.buffer.split_to(length)).unwrap());
                }
            }
            let data = self.requests.data().await?.ok()?;
            self.buffer.extend_from_slice(&data);
            self.requests.flow_control().release_capacity(data.len()).unwrap();
        }
    }

    /// Sends a response, as fast as the client takes it. A client that is gone is not told.
    pub async fn say(&mut self, message: impl Message) {
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(message.encoded_len() as u32);
        message.encode(&mut framed).unwrap();
        let mut framed = framed.freeze();
        let stream = self.begin();
        while !framed.is_empty() {
            stream.reserve_capacity(framed.len());
            while stream.capacity() == 0 {
                if !matches!(poll_fn(|context| stream.poll_capacity(context)).await, Some(Ok(_))) {
                    return;
                }
            }
            let part = framed.split_to(framed.len().min(stream.capacity()));
            if stream.send_data(part, false).is_err() {
                return;
            }
        }
    }

    /// Ends the call with trailers.
    pub fn end(&mut self, trailers: &[(&'static str, &str)]) {
        let _ = self.begin().send_trailers(headers(trailers));
    }

    /// Ends the call with headers alone.
    pub fn respond(&mut self, http_status: u16, fields: &[(&'static str, &str)]) {
        let mut response = Response::builder().status(http_status).body(()).unwrap();
        *response.headers_mut() = headers(fields);
        self.respond.send_response(response, true).unwrap();
    }

    /// Resets the call.
    pub fn reset(&mut self, reason: h2::Reason) {
        self.begin().send_reset(reason);
    }

    /// Asks for no more calls on this connection, as HTTP/2 does: those that are there go on.
    pub fn leave(&self) {
        self.leaving.notify_one();
    }

    /// Waits for the client to cancel the call, and says with what.
    pub async fn cancelled(&mut self) -> h2::Reason {
        let stream = self.begin();
        poll_fn(|context| stream.poll_reset(context)).await.unwrap()
    }

    fn begin(&mut self) -> &mut SendStream<Bytes> {
        let respond = &mut self.respond;
        self.responses.get_or_insert_with(|| {
            let response = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            respond.send_response(response, false).unwrap()
        })
    }
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}
