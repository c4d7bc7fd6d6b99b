//! Opens streams and makes calls at one server.

use std::sync::Arc;

use prost::Message;

use crate::config::Config;
use crate::error::{Error, StreamError};
use crate::path::{encode, Path};
use crate::status::{Code, Status};
use crate::stream::Stream;
use crate::transport::{next_message, Channel, Transport};
use crate::v1::{GetCapabilitiesRequest, GetCapabilitiesResponse, PlanRequest, PlanResponse};

/// Opens streams and makes calls at one server. A clone is the same client; tasks may share it.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
}

impl Client {
    /// A client of the server at `host:port` or `unix:/path/of/a/socket`. Nothing is sent yet. The connection is neither
    /// encrypted nor authenticated, as the server itself is: beyond one host, see [`Channel`].
    pub fn connect(address: &str) -> Self {
        Client::new(Channel::new(address))
    }

    /// A client over a transport of the caller's.
    pub fn new(transport: impl Transport + 'static) -> Self {
        Client { transport: Arc::new(transport) }
    }

    /// Opens a stream of the path `P`, and waits until the server takes items.
    ///
    /// The error is a [`StreamError`] where the server refuses the stream, such as for its config.
    pub async fn open<P: Path>(&self, config: Config) -> Result<Stream<P>, Error> {
        Stream::open(Arc::clone(&self.transport), config).await
    }

    /// Tells geometry, token counts and encoder ranks of images from their sizes alone.
    pub async fn plan(&self, request: PlanRequest) -> Result<PlanResponse, Error> {
        self.call("/monopath.v1.PreprocessingService/Plan", request).await
    }

    /// Tells what the server can do, and why it cannot do the rest.
    pub async fn capabilities(&self) -> Result<GetCapabilitiesResponse, Error> {
        self.call("/monopath.v1.PreprocessingService/GetCapabilities", GetCapabilitiesRequest {}).await
    }

    async fn call<R: Message + Default>(&self, method: &str, request: impl Message) -> Result<R, Error> {
        let failed = |status| Error::from(StreamError::of_status(status, None));
        let mut call = self.transport.open(method, None).await.map_err(failed)?;
        call.push(encode(request));
        call.half_close();
        let mut response = None;
        while let Some(message) = next_message(&mut *call).await.map_err(failed)? {
            response = Some(message);
        }
        let missing = || failed(Status::new(Code::Internal, "Expected a response, got none"));
        R::decode(response.ok_or_else(missing)?)
            .map_err(|error| Error::protocol(format_args!("Expected a response of {method}, got other bytes: {error}")))
    }
}
