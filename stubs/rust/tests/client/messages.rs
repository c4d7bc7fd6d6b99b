//! The messages that most scripts are made of, on the path DEFERRED_CPU.

use bytes::Bytes;
use monopath::v1::stream_deferred_cpu_request::Payload as Asked;
use monopath::v1::stream_deferred_cpu_response::Payload;
use monopath::v1::{
    deferred_cpu_features, DeferredCpuCompletion, DeferredCpuFeatures, FeatureChunk, Goaway, ImagePlan, ItemError,
    ItemErrorReason, ItemPlan, PreprocessingPath, Provenance, Ready, StreamDeferredCpuRequest,
    StreamDeferredCpuResponse, StreamErrorReason, StreamFailure, StreamLimits, Summary, TensorSpec,
};
use monopath::{Config, DataType, DeferredCpu, Image};

use crate::fake_server::Side;

const CHUNK_BYTES: usize = 1 << 20;
const CPU: i32 = PreprocessingPath::DeferredCpu as i32;

pub const OK: &[(&str, &str)] = &[("grpc-status", "0")];

pub fn config() -> Config {
    Config::preset("kimi-k3", DataType::Uint8)
}

pub fn item() -> Image<DeferredCpu> {
    item_of(3)
}

pub fn item_of(size_bytes: usize) -> Image<DeferredCpu> {
    Image::encoded("a label", vec![7; size_bytes])
}

pub fn limits() -> StreamLimits {
    StreamLimits {
        max_unfinished_items: 8,
        max_unfinished_bytes: 1 << 30,
        max_feature_bytes: 1 << 30,
        max_request_bytes: 1 << 26,
        ..StreamLimits::default()
    }
}

pub fn response(payload: Payload) -> StreamDeferredCpuResponse {
    StreamDeferredCpuResponse { payload: Some(payload) }
}

pub fn ready(limits: StreamLimits, config_sha256: &'static [u8]) -> StreamDeferredCpuResponse {
    let config_sha256 = Bytes::from_static(config_sha256);
    response(Payload::Ready(Ready { path: CPU, config_sha256, limits: Some(limits), ..Ready::default() }))
}

pub fn plan(id: i32, size_bytes: usize) -> StreamDeferredCpuResponse {
    let (size_bytes, shape) = (size_bytes as u32, vec![size_bytes as i64]);
    let features = Some(TensorSpec { data_type: DataType::Uint8.into(), shape, size_bytes });
    let plan = Some(ImagePlan { token_count: 5, features, ..ImagePlan::default() });
    response(Payload::Plan(ItemPlan { id, path: CPU, plan }))
}

pub fn chunk(id: i32, offset: usize, data: &[u8]) -> StreamDeferredCpuResponse {
    let chunk = FeatureChunk { offset_bytes: offset as u32, data: Bytes::copy_from_slice(data) };
    let location = Some(deferred_cpu_features::Location::Chunk(chunk));
    response(Payload::Features(DeferredCpuFeatures { id, location }))
}

pub fn completion(id: i32) -> StreamDeferredCpuResponse {
    let made = Provenance { path: CPU, config_sha256: Bytes::from_static(b"digest"), ..Provenance::default() };
    response(Payload::Completion(DeferredCpuCompletion {
        id,
        provenance: Some(made),
        ..DeferredCpuCompletion::default()
    }))
}

pub fn item_error(id: i32, reason: ItemErrorReason) -> StreamDeferredCpuResponse {
    response(Payload::Error(ItemError { id, reason: reason.into(), ..ItemError::default() }))
}

pub fn goaway() -> StreamDeferredCpuResponse {
    response(Payload::Goaway(Goaway::default()))
}

pub fn failure(reason: StreamErrorReason, message: &str) -> StreamDeferredCpuResponse {
    let message = message.to_owned();
    response(Payload::Failure(StreamFailure { reason: reason.into(), message, violations: vec![] }))
}

/// The messages of a good stream, as methods.
impl Side {
    pub async fn expect_config(&mut self) {
        let request = self.hear::<StreamDeferredCpuRequest>().await.unwrap();
        assert!(matches!(request.payload, Some(Asked::Config(_))));
    }

    /// Takes an item, and returns its id.
    pub async fn expect_item(&mut self) -> i32 {
        match self.hear::<StreamDeferredCpuRequest>().await.unwrap().payload {
            Some(Asked::Item(item)) => item.id,
            other => panic!("Expected an item, got {other:?}"),
        }
    }

    pub async fn expect_half_close(&mut self) {
        assert_eq!(self.hear::<StreamDeferredCpuRequest>().await, None);
    }

    pub async fn open(&mut self, limits: StreamLimits) {
        self.expect_config().await;
        self.say(ready(limits, b"digest")).await;
    }

    pub async fn complete(&mut self, id: i32, features: &[u8]) {
        self.say(plan(id, features.len())).await;
        for (index, part) in features.chunks(CHUNK_BYTES).enumerate() {
            self.say(chunk(id, index * CHUNK_BYTES, part)).await;
        }
        self.say(completion(id)).await;
    }

    /// Ends a good stream, once the client has half-closed.
    pub async fn finish(&mut self, completed_count: u32, failed_count: u32) {
        self.expect_half_close().await;
        self.summarise(completed_count, failed_count).await;
    }

    pub async fn summarise(&mut self, completed_count: u32, failed_count: u32) {
        let accepted_count = completed_count + failed_count;
        let summary = Summary { accepted_count, completed_count, failed_count, ..Summary::default() };
        self.say(response(Payload::Summary(summary))).await;
        self.end(OK);
    }
}
