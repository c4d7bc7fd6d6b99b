//! One connection to a server, made when it is needed, and made anew when it was lost.

use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{self, SendRequest};
use http::{HeaderValue, Method, Request, Uri, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::call::H2Call;
use super::trailers::status_of_error;
use super::{BoxFuture, Call, Transport};
use crate::status::{Code, Status};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// What one stream may have on its way: four messages of features.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// What all streams together may have on their way, so that one that is not read does not stop the others.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// The largest timeout that the header can say, in milliseconds.
const MAX_TIMEOUT_MILLISECONDS: u128 = 99_999_999;

/// What a connection runs over: TCP, a Unix socket, TLS.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

type Connector = Box<dyn Fn() -> BoxFuture<'static, io::Result<Box<dyn Io>>> + Send + Sync>;

/// gRPC over one HTTP/2 connection, which all its calls share. It runs in tokio.
///
/// Nothing is sent before the first call. A connection that was lost, or that the server is closing, is replaced with the
/// next call.
pub struct Channel {
    connector: Connector,
    /// As the caller said it, for errors.
    address: String,
    /// As it stands in `:authority`.
    authority: String,
    scheme: &'static str,
    authorization: Option<HeaderValue>,
    kept: Mutex<Kept>,
}

/// The latest connection.
#[derive(Default)]
struct Kept {
    /// Counts up from 1.
    number: u64,
    sender: Option<SendRequest<Bytes>>,
}

impl Channel {
    /// A channel to `host:port`, or to `unix:/path/of/a/socket`. It is neither encrypted nor authenticated.
    pub fn new(address: &str) -> Self {
        if let Some(path) = address.strip_prefix("unix:") {
            let path = path.to_owned();
            let channel = Channel::over("localhost", move || {
                let path = path.clone();
                Box::pin(async move { Ok(Box::new(UnixStream::connect(path).await?) as Box<dyn Io>) })
            });
            return Channel { address: address.to_owned(), ..channel };
        }
        let target = address.to_owned();
        Channel::over(address, move || {
            let target = target.clone();
            Box::pin(async move {
                let stream = TcpStream::connect(target).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream) as Box<dyn Io>)
            })
        })
    }

    /// A channel over connections that the caller makes, such as those of a TLS library; one that speaks TLS has to have
    /// agreed on `h2`. `authority` is the name that the server is called by.
    pub fn over<F>(authority: &str, connector: F) -> Self
    where
        F: Fn() -> BoxFuture<'static, io::Result<Box<dyn Io>>> + Send + Sync + 'static,
    {
        Channel {
            connector: Box::new(connector),
            address: authority.to_owned(),
            authority: authority.to_owned(),
            scheme: "http",
            authorization: None,
            kept: Mutex::default(),
        }
    }

    /// Says that connections are encrypted, which servers find in `:scheme`.
    #[must_use]
    pub fn encrypted(mut self) -> Self {
        self.scheme = "https";
        self
    }

    /// Sends a bearer token with each call, for servers that ask for one. `None` for one that no header can carry.
    pub fn bearer_token(mut self, token: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Some(self)
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, Status> {
        let connecting = async {
            let io = (self.connector)().await.map_err(|error| error.to_string())?;
            client::Builder::new()
                .initial_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .handshake(io)
                .await
                .map_err(|error| error.to_string())
        };
        let connected = timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| Err("nothing".to_owned()));
        let (sender, connection) = connected.map_err(|error| {
            Status::new(Code::Unavailable, format!("Expected a server at {}, got: {error}", self.address))
        })?;
        // It ends with the connection, whose error each call is told.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    /// The connection that is kept, made anew where that is not newer than the one that was found lost.
    async fn connection(&self, lost: u64) -> Result<(u64, SendRequest<Bytes>), Status> {
        let mut kept = self.kept.lock().await;
        if let Kept { number, sender: Some(sender) } = &*kept {
            if *number > lost {
                return Ok((*number, sender.clone()));
            }
        }
        let sender = self.connect().await?;
        *kept = Kept { number: kept.number + 1, sender: Some(sender.clone()) };
        Ok((kept.number, sender))
    }

    /// A connection that takes a call now. It waits where the server has as many calls as it takes.
    async fn sender(&self) -> Result<SendRequest<Bytes>, Status> {
        let (number, sender) = self.connection(0).await?;
        if let Ok(sender) = sender.ready().await {
            return Ok(sender);
        }
        let (_, sender) = self.connection(number).await?;
        sender.ready().await.map_err(|error| status_of_error(&error))
    }

    fn request(&self, method: &str, deadline: Option<Instant>) -> Result<Request<()>, Status> {
        let uri = Uri::builder().scheme(self.scheme).authority(self.authority.as_str()).path_and_query(method).build();
        let wrong =
            |error: http::Error| Status::new(Code::Internal, format!("Expected the name of a server, got: {error}"));
        let mut request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(uri.map_err(wrong)?)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", concat!("monopath-rust/", env!("CARGO_PKG_VERSION")));
        if let Some(deadline) = deadline {
            let left =
                deadline.saturating_duration_since(Instant::now()).as_millis().clamp(1, MAX_TIMEOUT_MILLISECONDS);
            request = request.header("grpc-timeout", format!("{left}m"));
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        request.body(()).map_err(wrong)
    }
}

impl Transport for Channel {
    fn open<'a>(&'a self, method: &'a str, deadline: Option<Instant>) -> BoxFuture<'a, Result<Box<dyn Call>, Status>> {
        Box::pin(async move {
            let opening = async {
                let request = self.request(method, deadline)?;
                let mut sender = self.sender().await?;
                sender.send_request(request, false).map_err(|error| status_of_error(&error))
            };
            let opened = match deadline {
                None => opening.await,
                Some(deadline) => timeout_at(deadline.into(), opening).await.unwrap_or_else(|_| {
                    Err(Status::new(Code::DeadlineExceeded, "Expected a connection before the deadline, got none"))
                }),
            };
            let (response, requests) = opened?;
            let sleep: Option<Pin<Box<_>>> = deadline.map(|deadline| Box::pin(sleep_until(deadline.into())));
            Ok(Box::new(H2Call::new(response, requests, sleep)) as Box<dyn Call>)
        })
    }
}
