//! The three paths, and what the rest of the client has to know of each.

use bytes::Bytes;
use prost::Message as _;

use crate::config::Config;
use crate::item::{Image, LocalFeatures};
use crate::v1::{self, DataType, FeatureChunk, PreprocessingPath, StreamLimits, TensorSpec};

const REQUEST_CHUNK_BYTES: usize = 1 << 20;
/// More than the fields of a request take besides texts and payload.
const REQUEST_ENVELOPE_BYTES: u64 = 256;

/// Images in; features made by the server's CPU out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredCpu {}

/// Images in; features made by the server's GPU out. Refused with DEVICE_UNAVAILABLE where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredCuda {}

/// Finished features in; checked and converted features out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {}

/// A preprocessing path: [`DeferredCpu`], [`DeferredCuda`] or [`Local`].
pub trait Path: sealed::Adapter {}

impl Path for DeferredCpu {}
impl Path for DeferredCuda {}
impl Path for Local {}

/// What a server says, the same for all paths.
pub enum Received {
    /// A response that this release does not know, which is to be skipped.
    Unknown,
    Ready(Box<v1::Ready>),
    Plan(v1::ItemPlan),
    /// Features of an item; no chunk where they are elsewhere.
    Features(i32, Option<FeatureChunk>),
    Completion(Completion),
    Error(v1::ItemError),
    Summary(v1::Summary),
    Goaway,
    Failure(v1::StreamFailure),
}

/// The good end of an item, the same for all paths.
pub struct Completion {
    pub id: i32,
    pub provenance: v1::Provenance,
    pub timings: v1::ItemTimings,
    pub cache: v1::CacheOutcome,
}

pub(crate) mod sealed {
    use super::*;

    /// The messages of a path.
    pub trait Adapter: Sized + Send + 'static {
        /// What is sent.
        type Item: Send;

        const PATH: PreprocessingPath;
        const METHOD: &'static str;

        /// The first request.
        fn config(config: &Config) -> Bytes;
        fn label(item: &Self::Item) -> &str;
        /// Bytes of the image or of the features.
        fn payload_bytes(item: &Self::Item) -> u64;
        /// No request of the item is larger than this.
        fn largest_request_bytes(item: &Self::Item, limits: &StreamLimits) -> u64;
        /// The requests that send an item.
        fn requests(item: Self::Item, id: i32, limits: &StreamLimits) -> Vec<Bytes>;
        fn cancellation(id: i32) -> Bytes;
        fn read(response: Bytes) -> Result<Received, prost::DecodeError>;
    }
}

/// Reads a response of a path, whose oneof is the module `$payload`.
macro_rules! read {
    ($response:ident, $payload:ident, $features:ident, $completion:ident, $cache:expr) => {
        fn read(response: Bytes) -> Result<Received, prost::DecodeError> {
            use v1::$features::Location;
            use v1::$payload::Payload;
            let payload = v1::$response::decode(response)?.payload;
            Ok(payload.map_or(Received::Unknown, |payload| match payload {
                Payload::Ready(ready) => Received::Ready(Box::new(ready)),
                Payload::Plan(plan) => Received::Plan(plan),
                Payload::Error(error) => Received::Error(error),
                Payload::Summary(summary) => Received::Summary(summary),
                Payload::Goaway(_) => Received::Goaway,
                Payload::Failure(failure) => Received::Failure(failure),
                Payload::Features(features) => Received::Features(
                    features.id,
                    match features.location {
                        Some(Location::Chunk(chunk)) => Some(chunk),
                        _ => None,
                    },
                ),
                Payload::Completion(completion) => Received::Completion(Completion {
                    id: completion.id,
                    cache: $cache(&completion),
                    provenance: completion.provenance.unwrap_or_default(),
                    timings: completion.timings.unwrap_or_default(),
                }),
                // Not asked for.
                Payload::Group(_) => Received::Unknown,
            }))
        }
    };
}

/// The messages of a path of images. `$config` are the fields that its config alone has.
macro_rules! deferred {
    (
        $path:ident, $method:literal, $request:ident, $request_payload:ident, $response:ident, $response_payload:ident,
        $config_message:ident, $item:ident, $features:ident, $completion:ident, $config:ident => { $($field:tt)* }
    ) => {
        impl sealed::Adapter for $path {
            type Item = Image<$path>;

            const PATH: PreprocessingPath = PreprocessingPath::$path;
            const METHOD: &'static str = concat!("/monopath.v1.PreprocessingService/", $method);

            fn config($config: &Config) -> Bytes {
                let processor = Some($config.processor.clone());
                let message = v1::$config_message { processor, output: Some($config.output()), $($field)* };
                encode(v1::$request { payload: Some(v1::$request_payload::Payload::Config(message)) })
            }

            fn label(image: &Self::Item) -> &str {
                &image.label
            }

            fn payload_bytes(image: &Self::Item) -> u64 {
                image.payload_bytes()
            }

            fn largest_request_bytes(image: &Self::Item, _limits: &StreamLimits) -> u64 {
                let texts = image.label.len() + image.traceparent.len() + image.expected_sha256.len();
                image.payload_bytes() + texts as u64 + REQUEST_ENVELOPE_BYTES
            }

            fn requests(image: Self::Item, id: i32, _limits: &StreamLimits) -> Vec<Bytes> {
                let message = v1::$item {
                    id,
                    label: image.label,
                    image: Some(image.source),
                    traceparent: image.traceparent,
                    expected_sha256: image.expected_sha256,
                };
                vec![encode(v1::$request { payload: Some(v1::$request_payload::Payload::Item(message)) })]
            }

            fn cancellation(id: i32) -> Bytes {
                let message = v1::Cancellation { id };
                encode(v1::$request { payload: Some(v1::$request_payload::Payload::Cancellation(message)) })
            }

            read!($response, $response_payload, $features, $completion, |completion: &v1::$completion| completion.cache());
        }
    };
}

deferred!(
    DeferredCpu, "StreamDeferredCpu", StreamDeferredCpuRequest, stream_deferred_cpu_request, StreamDeferredCpuResponse,
    stream_deferred_cpu_response, DeferredCpuConfig, DeferredCpuItem, deferred_cpu_features, DeferredCpuCompletion,
    config => { }
);

deferred!(
    DeferredCuda, "StreamDeferredCuda", StreamDeferredCudaRequest, stream_deferred_cuda_request,
    StreamDeferredCudaResponse, stream_deferred_cuda_response, DeferredCudaConfig, DeferredCudaItem,
    deferred_cuda_features, DeferredCudaCompletion,
    config => { device_uuid: config.device_uuid.clone().unwrap_or_default() }
);

impl sealed::Adapter for Local {
    type Item = LocalFeatures;

    const PATH: PreprocessingPath = PreprocessingPath::Local;
    const METHOD: &'static str = "/monopath.v1.PreprocessingService/StreamLocal";

    fn config(config: &Config) -> Bytes {
        let message = v1::LocalConfig { processor: Some(config.processor.clone()), output: Some(config.output()) };
        local_request(v1::stream_local_request::Payload::Config(message))
    }

    fn label(features: &LocalFeatures) -> &str {
        &features.label
    }

    fn payload_bytes(features: &LocalFeatures) -> u64 {
        features.data.len() as u64
    }

    fn largest_request_bytes(features: &LocalFeatures, limits: &StreamLimits) -> u64 {
        let texts = features.label.len() + features.traceparent.len() + features.content_sha256.len();
        let chunk = features.data.len().min(chunk_bytes(limits));
        chunk.max(texts) as u64 + REQUEST_ENVELOPE_BYTES
    }

    fn requests(features: LocalFeatures, id: i32, limits: &StreamLimits) -> Vec<Bytes> {
        let spec = TensorSpec {
            data_type: features.data_type.into(),
            shape: features.shape,
            // A length that does not fit is over any server's limit, and refused by that.
            size_bytes: u32::try_from(features.data.len()).unwrap_or(u32::MAX),
        };
        let item = v1::LocalItem {
            id,
            label: features.label,
            original_size: Some(features.original_size),
            grid_thw: Some(features.grid_thw),
            token_count: features.token_count,
            features: Some(spec),
            traceparent: features.traceparent,
            content_sha256: features.content_sha256,
            tile_grid: features.tile_grid,
        };
        let mut requests = vec![local_request(v1::stream_local_request::Payload::Item(item))];
        let step = chunk_bytes(limits);
        for offset in (0..features.data.len()).step_by(step) {
            let data = features.data.slice(offset..features.data.len().min(offset + step));
            let chunk = FeatureChunk { offset_bytes: u32::try_from(offset).unwrap_or(u32::MAX), data };
            let location = Some(v1::local_item_features::Location::Chunk(chunk));
            let message = v1::LocalItemFeatures { id, location };
            requests.push(local_request(v1::stream_local_request::Payload::ItemFeatures(message)));
        }
        requests
    }

    fn cancellation(id: i32) -> Bytes {
        local_request(v1::stream_local_request::Payload::Cancellation(v1::Cancellation { id }))
    }

    read!(StreamLocalResponse, stream_local_response, local_features, LocalCompletion, |_: &_| {
        v1::CacheOutcome::Unspecified
    });
}

fn local_request(payload: v1::stream_local_request::Payload) -> Bytes {
    encode(v1::StreamLocalRequest { payload: Some(payload) })
}

/// How many bytes of features go into one request.
fn chunk_bytes(limits: &StreamLimits) -> usize {
    match u64::from(limits.max_request_bytes) {
        0 => REQUEST_CHUNK_BYTES,
        limit => limit.saturating_sub(REQUEST_ENVELOPE_BYTES).clamp(1, REQUEST_CHUNK_BYTES as u64) as usize,
    }
}

pub(crate) fn encode(message: impl prost::Message) -> Bytes {
    message.encode_to_vec().into()
}

/// The size of an element; 0 for a type that this release does not know.
pub(crate) fn element_bytes(data_type: DataType) -> u64 {
    match data_type {
        DataType::Unspecified => 0,
        DataType::Uint8 => 1,
        DataType::Bfloat16 | DataType::Float16 => 2,
        DataType::Float32 => 4,
    }
}
