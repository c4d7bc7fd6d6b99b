/// Element type and shape of a tensor. Its bytes are little-endian and row-major (C order), without gaps.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TensorSpec {
    /// Type of each element.
    #[prost(enumeration="DataType", tag="1")]
    pub data_type: i32,
    /// Length of each dimension, outermost first.
    #[prost(int64, repeated, tag="2")]
    pub shape: ::prost::alloc::vec::Vec<i64>,
    /// Bytes of the whole tensor: the product of the shape, times the element's size.
    #[prost(uint32, tag="3")]
    pub size_bytes: u32,
}
/// A small tensor with its bytes.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Tensor {
    /// Element type and shape.
    #[prost(message, optional, tag="1")]
    pub spec: ::core::option::Option<TensorSpec>,
    /// The bytes, little-endian and row-major; exactly `spec.size_bytes` of them.
    #[prost(bytes="bytes", tag="2")]
    pub data: ::prost::bytes::Bytes,
}
/// Element types of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    /// Not a type. Refused.
    Unspecified = 0,
    /// 8 bits, unsigned. As features: pixel values before normalisation; `Ready.normalize_table` finishes them.
    Uint8 = 1,
    /// IEEE 754 binary32.
    Float32 = 2,
    /// The upper half of a binary32, rounded to nearest, ties to even.
    Bfloat16 = 3,
    /// IEEE 754 binary16, rounded to nearest, ties to even.
    Float16 = 4,
}
impl DataType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            DataType::Unspecified => "DATA_TYPE_UNSPECIFIED",
            DataType::Uint8 => "DATA_TYPE_UINT8",
            DataType::Float32 => "DATA_TYPE_FLOAT32",
            DataType::Bfloat16 => "DATA_TYPE_BFLOAT16",
            DataType::Float16 => "DATA_TYPE_FLOAT16",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "DATA_TYPE_UNSPECIFIED" => Some(Self::Unspecified),
            "DATA_TYPE_UINT8" => Some(Self::Uint8),
            "DATA_TYPE_FLOAT32" => Some(Self::Float32),
            "DATA_TYPE_BFLOAT16" => Some(Self::Bfloat16),
            "DATA_TYPE_FLOAT16" => Some(Self::Float16),
            _ => None,
        }
    }
}
/// Everything that follows from an image's size and the processor config alone.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ImagePlan {
    /// Size the plan was made from, after the config's orientation policy was applied.
    #[prost(message, optional, tag="1")]
    pub original_size: ::core::option::Option<Size>,
    /// Size after the resize, before the padding.
    #[prost(message, optional, tag="2")]
    pub resized_size: ::core::option::Option<Size>,
    /// Zero pixels added after the resize.
    #[prost(message, optional, tag="3")]
    pub padding: ::core::option::Option<Padding>,
    /// Patch grid of the padded image, or of what is kept of it. Where `geometry` says that rows of features are something else, it
    /// is all zero, as is the padding; both are there all the same, for clients that know of nothing else.
    #[prost(message, optional, tag="4")]
    pub grid_thw: ::core::option::Option<GridThw>,
    /// Tokens that the encoder's output will have for this image; 0 where the config does not say how many.
    #[prost(uint32, tag="5")]
    pub token_count: u32,
    /// The tensor that will follow, exactly: rows, channels, height and width of a row's pixels; where rows hold several frames,
    /// these come behind the channels. Absent where no element type was asked.
    #[prost(message, optional, tag="6")]
    pub features: ::core::option::Option<TensorSpec>,
    /// What is used of the resized image, at a height and width of its own. Absent: all of it.
    #[prost(message, optional, tag="9")]
    pub crop: ::core::option::Option<Crop>,
    /// What the rows of features are, where they are no patches of `grid_thw`. Who does not know it still has the shape and the
    /// token count.
    #[prost(oneof="image_plan::Geometry", tags="7, 8")]
    pub geometry: ::core::option::Option<image_plan::Geometry>,
}
/// Nested message and enum types in `ImagePlan`.
pub mod image_plan {
    /// What the rows of features are, where they are no patches of `grid_thw`. Who does not know it still has the shape and the
    /// token count.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Geometry {
        /// One row for each tile.
        #[prost(message, tag="7")]
        TileGrid(super::TileGrid),
        /// One row, which is the image in the size that all images get.
        #[prost(message, tag="8")]
        FixedSize(super::Size),
    }
}
/// Tiles of one size, cut from an image that was resized to a whole number of them. Rows of features are in raster order.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TileGrid {
    /// Tiles per line.
    #[prost(uint32, tag="1")]
    pub columns: u32,
    /// Tiles per column.
    #[prost(uint32, tag="2")]
    pub rows: u32,
    /// One more row of features follows, the last: the whole image, resized to one tile.
    #[prost(bool, tag="3")]
    pub has_thumbnail: bool,
    /// Side of a tile.
    #[prost(uint32, tag="4")]
    pub tile_size_px: u32,
}
/// A window onto a resized image.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Crop {
    /// Columns of the image that are left out at the left; where negative, columns of zero pixels that are put before it.
    #[prost(sint32, tag="1")]
    pub left_px: i32,
    /// Lines that are left out at the top; where negative, lines of zero pixels that are put before it.
    #[prost(sint32, tag="2")]
    pub top_px: i32,
    /// Columns that are kept. What lies beyond the image is zero pixels.
    #[prost(uint32, tag="3")]
    pub width_px: u32,
    /// Lines that are kept.
    #[prost(uint32, tag="4")]
    pub height_px: u32,
}
/// Width and height of an image.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Size {
    /// Pixels per line, at least 1.
    #[prost(uint32, tag="1")]
    pub width_px: u32,
    /// Lines, at least 1.
    #[prost(uint32, tag="2")]
    pub height_px: u32,
}
/// Zero pixels added to an image, at its right and bottom only.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Padding {
    /// Columns added at the right.
    #[prost(uint32, tag="1")]
    pub right_px: u32,
    /// Lines added at the bottom.
    #[prost(uint32, tag="2")]
    pub bottom_px: u32,
}
/// A patch grid, in patches (not merged tokens). Rows of features are in raster order: time, then height, then width; for
/// families whose message says so, they are grouped by the windows that become one token.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GridThw {
    /// Frames; 1 for an image.
    #[prost(uint32, tag="1")]
    pub t: u32,
    /// Patches per column.
    #[prost(uint32, tag="2")]
    pub h: u32,
    /// Patches per line.
    #[prost(uint32, tag="3")]
    pub w: u32,
}
/// Who turns pixels into features. One path is one method with messages of its own, so that a stream cannot mix paths: see
/// the options `path` and `method_path`, which bind each value to its messages and to its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PreprocessingPath {
    /// Not a path. Never sent; refused where received.
    Unspecified = 0,
    /// The client has finished the features. The server checks, converts and hands them over.
    Local = 1,
    /// The client sends images; the server's GPU finishes them.
    DeferredCuda = 2,
    /// The client sends images; the server's CPU finishes them.
    DeferredCpu = 3,
}
impl PreprocessingPath {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            PreprocessingPath::Unspecified => "PREPROCESSING_PATH_UNSPECIFIED",
            PreprocessingPath::Local => "PREPROCESSING_PATH_LOCAL",
            PreprocessingPath::DeferredCuda => "PREPROCESSING_PATH_DEFERRED_CUDA",
            PreprocessingPath::DeferredCpu => "PREPROCESSING_PATH_DEFERRED_CPU",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PREPROCESSING_PATH_UNSPECIFIED" => Some(Self::Unspecified),
            "PREPROCESSING_PATH_LOCAL" => Some(Self::Local),
            "PREPROCESSING_PATH_DEFERRED_CUDA" => Some(Self::DeferredCuda),
            "PREPROCESSING_PATH_DEFERRED_CPU" => Some(Self::DeferredCpu),
            _ => None,
        }
    }
}
/// Limits of one field. Within a major version they only loosen. On a field that is a message, limits of numbers hold for
/// every number in it. Enum fields need no rule: their zero value and unknown numbers are always refused in requests.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FieldRules {
    /// The field must be present: set, for a scalar declared `optional` and for a message; not empty, for the rest.
    #[prost(bool, tag="1")]
    pub required: bool,
    /// Smallest number allowed.
    #[prost(double, optional, tag="2")]
    pub minimum: ::core::option::Option<f64>,
    /// Largest number allowed.
    #[prost(double, optional, tag="3")]
    pub maximum: ::core::option::Option<f64>,
    /// The number must be larger than this.
    #[prost(double, optional, tag="4")]
    pub greater_than: ::core::option::Option<f64>,
    /// Least length: bytes of a string or of bytes, elements of a repeated field.
    #[prost(uint32, optional, tag="5")]
    pub min_length: ::core::option::Option<u32>,
    /// Greatest length: bytes of a string or of bytes, elements of a repeated field.
    #[prost(uint32, optional, tag="6")]
    pub max_length: ::core::option::Option<u32>,
}
/// What a caller may conclude from an error reason.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReasonTraits {
    /// The gRPC status code of the reason. An item error has no status of its own; for it this is the class of the error.
    #[prost(enumeration="GrpcCode", tag="1")]
    pub code: i32,
    /// The same request may succeed later, here or at another replica, without being changed.
    #[prost(bool, tag="2")]
    pub retryable: bool,
}
/// The canonical gRPC status codes, by their numbers, so that no other schema has to be imported for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum GrpcCode {
    /// OK on the wire. No reason has it.
    Unspecified = 0,
    /// CANCELLED.
    Cancelled = 1,
    /// UNKNOWN.
    Unknown = 2,
    /// INVALID_ARGUMENT.
    InvalidArgument = 3,
    /// DEADLINE_EXCEEDED.
    DeadlineExceeded = 4,
    /// NOT_FOUND.
    NotFound = 5,
    /// ALREADY_EXISTS.
    AlreadyExists = 6,
    /// PERMISSION_DENIED.
    PermissionDenied = 7,
    /// RESOURCE_EXHAUSTED.
    ResourceExhausted = 8,
    /// FAILED_PRECONDITION.
    FailedPrecondition = 9,
    /// ABORTED.
    Aborted = 10,
    /// OUT_OF_RANGE.
    OutOfRange = 11,
    /// UNIMPLEMENTED.
    Unimplemented = 12,
    /// INTERNAL.
    Internal = 13,
    /// UNAVAILABLE.
    Unavailable = 14,
    /// DATA_LOSS.
    DataLoss = 15,
    /// UNAUTHENTICATED.
    Unauthenticated = 16,
}
impl GrpcCode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            GrpcCode::Unspecified => "GRPC_CODE_UNSPECIFIED",
            GrpcCode::Cancelled => "GRPC_CODE_CANCELLED",
            GrpcCode::Unknown => "GRPC_CODE_UNKNOWN",
            GrpcCode::InvalidArgument => "GRPC_CODE_INVALID_ARGUMENT",
            GrpcCode::DeadlineExceeded => "GRPC_CODE_DEADLINE_EXCEEDED",
            GrpcCode::NotFound => "GRPC_CODE_NOT_FOUND",
            GrpcCode::AlreadyExists => "GRPC_CODE_ALREADY_EXISTS",
            GrpcCode::PermissionDenied => "GRPC_CODE_PERMISSION_DENIED",
            GrpcCode::ResourceExhausted => "GRPC_CODE_RESOURCE_EXHAUSTED",
            GrpcCode::FailedPrecondition => "GRPC_CODE_FAILED_PRECONDITION",
            GrpcCode::Aborted => "GRPC_CODE_ABORTED",
            GrpcCode::OutOfRange => "GRPC_CODE_OUT_OF_RANGE",
            GrpcCode::Unimplemented => "GRPC_CODE_UNIMPLEMENTED",
            GrpcCode::Internal => "GRPC_CODE_INTERNAL",
            GrpcCode::Unavailable => "GRPC_CODE_UNAVAILABLE",
            GrpcCode::DataLoss => "GRPC_CODE_DATA_LOSS",
            GrpcCode::Unauthenticated => "GRPC_CODE_UNAUTHENTICATED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "GRPC_CODE_UNSPECIFIED" => Some(Self::Unspecified),
            "GRPC_CODE_CANCELLED" => Some(Self::Cancelled),
            "GRPC_CODE_UNKNOWN" => Some(Self::Unknown),
            "GRPC_CODE_INVALID_ARGUMENT" => Some(Self::InvalidArgument),
            "GRPC_CODE_DEADLINE_EXCEEDED" => Some(Self::DeadlineExceeded),
            "GRPC_CODE_NOT_FOUND" => Some(Self::NotFound),
            "GRPC_CODE_ALREADY_EXISTS" => Some(Self::AlreadyExists),
            "GRPC_CODE_PERMISSION_DENIED" => Some(Self::PermissionDenied),
            "GRPC_CODE_RESOURCE_EXHAUSTED" => Some(Self::ResourceExhausted),
            "GRPC_CODE_FAILED_PRECONDITION" => Some(Self::FailedPrecondition),
            "GRPC_CODE_ABORTED" => Some(Self::Aborted),
            "GRPC_CODE_OUT_OF_RANGE" => Some(Self::OutOfRange),
            "GRPC_CODE_UNIMPLEMENTED" => Some(Self::Unimplemented),
            "GRPC_CODE_INTERNAL" => Some(Self::Internal),
            "GRPC_CODE_UNAVAILABLE" => Some(Self::Unavailable),
            "GRPC_CODE_DATA_LOSS" => Some(Self::DataLoss),
            "GRPC_CODE_UNAUTHENTICATED" => Some(Self::Unauthenticated),
            _ => None,
        }
    }
}
/// A part of one item's features, in the message itself. The chunks of an item come in order, without gap or overlap;
/// the chunks of different items may interleave.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FeatureChunk {
    /// Where in the tensor `data` begins.
    #[prost(uint32, tag="1")]
    pub offset_bytes: u32,
    /// The bytes; in responses at most 1 MiB of them.
    #[prost(bytes="bytes", tag="2")]
    pub data: ::prost::bytes::Bytes,
}
/// Bytes in a shared-memory segment: a file in the directory that client and server share, usually /dev/shm. Its name begins
/// with "monopath-". Who made a segment never makes it smaller; who reads it opens it for reading only, does not follow links,
/// and maps it read-only or private: the same memory may be leased to others too.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryHandle {
    /// Name of the segment, without a directory.
    #[prost(string, tag="1")]
    pub name: ::prost::alloc::string::String,
    /// Where in the segment the bytes begin.
    #[prost(uint64, tag="2")]
    pub offset_bytes: u64,
    /// How many bytes they are.
    #[prost(uint64, tag="3")]
    pub length_bytes: u64,
    /// Which use of the memory this is. A server's: the segment begins with the 8 letters "monopath" and this number, 8 bytes
    /// little-endian, as long as the lease lasts. A client's: larger than in every handle that it sent on the stream before;
    /// the server refuses others.
    #[prost(uint64, tag="4")]
    pub generation: u64,
}
/// A segment with a secret in it, by which two processes find out whether they see the same shared memory.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryProbe {
    /// Name of the segment, without a directory.
    #[prost(string, tag="1")]
    pub name: ::prost::alloc::string::String,
    /// The segment's first bytes: 16 random ones or more.
    #[prost(bytes="bytes", tag="2")]
    pub nonce: ::prost::bytes::Bytes,
}
/// Bytes in the memory of a GPU, exported by one process of this host to another. Before a client releases them it closes
/// the handle, with all its work on them done.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CudaIpcHandle {
    /// UUID of the GPU, as the driver prints it.
    #[prost(string, tag="1")]
    pub device_uuid: ::prost::alloc::string::String,
    /// The driver's memory handle.
    #[prost(bytes="bytes", tag="2")]
    pub memory_handle: ::prost::bytes::Bytes,
    /// Where behind the handle's base the bytes begin.
    #[prost(uint64, tag="3")]
    pub offset_bytes: u64,
    /// How many bytes they are.
    #[prost(uint64, tag="4")]
    pub length_bytes: u64,
    /// The driver's event handle; the consumer waits on it before it reads.
    #[prost(bytes="bytes", tag="5")]
    pub event_handle: ::prost::bytes::Bytes,
    /// Which use of this place in the memory it is; counts up.
    #[prost(uint64, tag="6")]
    pub generation: u64,
}
/// Which processor turns an image into features, with every number that can change a byte of them.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ProcessorConfig {
    /// From where the config comes. `Ready` answers with the typed one that it resolved to.
    #[prost(oneof="processor_config::Source", tags="1, 2, 11, 12, 13, 14, 15, 16, 17")]
    pub source: ::core::option::Option<processor_config::Source>,
}
/// Nested message and enum types in `ProcessorConfig`.
pub mod processor_config {
    /// From where the config comes. `Ready` answers with the typed one that it resolved to.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Source {
        /// The JSON text that ships with a checkpoint.
        #[prost(message, tag="1")]
        Checkpoint(super::CheckpointConfig),
        /// A config that the server has under a name.
        #[prost(message, tag="2")]
        Preset(super::PresetConfig),
        /// Typed: Kimi-K2.5, Kimi-K3 and others that cut NaViT patch grids.
        #[prost(message, tag="11")]
        Kimi(super::KimiConfig),
        /// Typed: Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5.
        #[prost(message, tag="12")]
        QwenVl(super::QwenVlConfig),
        /// Typed: Kimi-VL.
        #[prost(message, tag="13")]
        KimiVl(super::KimiVlConfig),
        /// Typed: GLM-4.1V, GLM-4.5V, GLM-4.6V, GLM-OCR.
        #[prost(message, tag="14")]
        GlmVl(super::GlmVlConfig),
        /// Typed: GLM5-Next.
        #[prost(message, tag="15")]
        GlmNext(super::GlmNextConfig),
        /// Typed: CLIP, SigLIP.
        #[prost(message, tag="16")]
        FixedSize(super::FixedSizeConfig),
        /// Typed: InternVL.
        #[prost(message, tag="17")]
        InternVl(super::InternVlConfig),
    }
}
/// A `preprocessor_config.json`, as it ships with a checkpoint. Of one that has a `processor_config.json` too, send that: its
/// `image_processor` object counts, as it does for the model's own code. Of an InternVL checkpoint that brings its own code, which
/// has neither, send its `config.json`. The family is found in the file's `image_processor_type`, or in keys that one family alone
/// has; an unknown one is refused.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CheckpointConfig {
    /// The file's text, unchanged. Unknown keys are warnings in `Ready`, as are absent ones for which the family's own code has a
    /// default; missing and wrong ones refuse the stream.
    #[prost(string, tag="1")]
    pub preprocessor_config_json: ::prost::alloc::string::String,
    /// Order and rounding of the resize, which such files do not name. Absent: the family's own, given with its message.
    #[prost(enumeration="ResampleKernel", optional, tag="2")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP, as these checkpoints do.
    #[prost(enumeration="OrientationPolicy", optional, tag="3")]
    pub orientation_policy: ::core::option::Option<i32>,
    /// What becomes of an alpha channel. Absent: the family's own. Refused for families that have no such choice.
    #[prost(enumeration="AlphaPolicy", optional, tag="4")]
    pub alpha_policy: ::core::option::Option<i32>,
}
/// The name of a config that the server has.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PresetConfig {
    /// One of the names that `GetCapabilities` lists, e.g. "kimi-k3".
    #[prost(string, tag="1")]
    pub name: ::prost::alloc::string::String,
    /// Order and rounding of the resize. Absent: the preset's own.
    #[prost(enumeration="ResampleKernel", optional, tag="2")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: the preset's own.
    #[prost(enumeration="OrientationPolicy", optional, tag="3")]
    pub orientation_policy: ::core::option::Option<i32>,
    /// What becomes of an alpha channel. Absent: the preset's own. Refused for families that have no such choice.
    #[prost(enumeration="AlphaPolicy", optional, tag="4")]
    pub alpha_policy: ::core::option::Option<i32>,
}
/// The processor of Kimi-K2.5 and Kimi-K3, under the names of its `media_proc_cfg`.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct KimiConfig {
    /// Side of a square patch, in pixels.
    #[prost(uint32, optional, tag="1")]
    pub patch_size: ::core::option::Option<u32>,
    /// Patches per side of the square that the model merges into one token.
    #[prost(uint32, optional, tag="2")]
    pub merge_kernel_size: ::core::option::Option<u32>,
    /// Most patches of an image before padding; larger images are shrunk.
    #[prost(uint32, optional, tag="3")]
    pub in_patch_limit: ::core::option::Option<u32>,
    /// Most patches on one side; larger images are shrunk.
    #[prost(uint32, optional, tag="4")]
    pub patch_limit_on_one_side: ::core::option::Option<u32>,
    /// Token count to report. Absent: the grid's. An image whose grid gives another count is refused.
    #[prost(uint32, optional, tag="5")]
    pub fixed_output_tokens: ::core::option::Option<u32>,
    /// Mean of each channel, on a scale of 0 to 1.
    #[prost(message, optional, tag="6")]
    pub image_mean: ::core::option::Option<ChannelValues>,
    /// Standard deviation of each channel, on a scale of 0 to 1. Larger than 0.
    #[prost(message, optional, tag="7")]
    pub image_std: ::core::option::Option<ChannelValues>,
    /// What lies behind transparent pixels. Absent: alpha is dropped.
    #[prost(message, optional, tag="8")]
    pub transparent_bg_config: ::core::option::Option<TransparentBackground>,
    /// When the background is put behind. Absent: BEFORE_RESIZE, the checkpoint code's own default.
    #[prost(enumeration="TransparentFillStage", optional, tag="9")]
    pub transparent_bg_fill_stage: ::core::option::Option<i32>,
    /// Order and rounding of the resize, one of the PILLOW kernels. Absent: PILLOW_13.
    #[prost(enumeration="ResampleKernel", optional, tag="10")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP, as these checkpoints do.
    #[prost(enumeration="OrientationPolicy", optional, tag="11")]
    pub orientation_policy: ::core::option::Option<i32>,
}
/// The processor of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5 for still images. Features have the shape
/// [rows, 3, temporal_patch_size, patch_size, patch_size], and rows are grouped by the windows of `merge_size` patches a side
/// that become one token: window rows, window columns, then the rows and columns within a window.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QwenVlConfig {
    /// Side of a square patch, in pixels.
    #[prost(uint32, optional, tag="1")]
    pub patch_size: ::core::option::Option<u32>,
    /// Frames that a row of features holds; a still image is repeated so often.
    #[prost(uint32, optional, tag="2")]
    pub temporal_patch_size: ::core::option::Option<u32>,
    /// Patches per side of the square that the model merges into one token.
    #[prost(uint32, optional, tag="3")]
    pub merge_size: ::core::option::Option<u32>,
    /// Smallest area of a resized image, in pixels; smaller images are enlarged. `size.shortest_edge` in the JSON.
    #[prost(uint32, optional, tag="4")]
    pub min_pixels: ::core::option::Option<u32>,
    /// Largest area of a resized image, in pixels; larger images are shrunk. `size.longest_edge` in the JSON.
    #[prost(uint32, optional, tag="5")]
    pub max_pixels: ::core::option::Option<u32>,
    /// Mean of each channel, on a scale of 0 to 1.
    #[prost(message, optional, tag="6")]
    pub image_mean: ::core::option::Option<ChannelValues>,
    /// Standard deviation of each channel, on a scale of 0 to 1. Larger than 0.
    #[prost(message, optional, tag="7")]
    pub image_std: ::core::option::Option<ChannelValues>,
    /// Order and rounding of the resize. Absent: ATEN_U8.
    #[prost(enumeration="ResampleKernel", optional, tag="8")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What becomes of an alpha channel. Absent: DROP.
    #[prost(enumeration="AlphaPolicy", optional, tag="9")]
    pub alpha_policy: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP.
    #[prost(enumeration="OrientationPolicy", optional, tag="10")]
    pub orientation_policy: ::core::option::Option<i32>,
}
/// The processor of Kimi-VL. An image is resized in its own colour mode, padded, then turned into RGB; alpha is dropped.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct KimiVlConfig {
    /// Side of a square patch, in pixels.
    #[prost(uint32, optional, tag="1")]
    pub patch_size: ::core::option::Option<u32>,
    /// Patches per side of the square that the model merges into one token.
    #[prost(uint32, optional, tag="2")]
    pub merge_kernel_size: ::core::option::Option<u32>,
    /// Most patches of an image before padding; larger images are shrunk.
    #[prost(uint32, optional, tag="3")]
    pub in_token_limit: ::core::option::Option<u32>,
    /// Mean of each channel, on a scale of 0 to 1.
    #[prost(message, optional, tag="4")]
    pub image_mean: ::core::option::Option<ChannelValues>,
    /// Standard deviation of each channel, on a scale of 0 to 1. Larger than 0.
    #[prost(message, optional, tag="5")]
    pub image_std: ::core::option::Option<ChannelValues>,
    /// Order and rounding of the resize. Absent: PILLOW_13.
    #[prost(enumeration="ResampleKernel", optional, tag="6")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP.
    #[prost(enumeration="OrientationPolicy", optional, tag="7")]
    pub orientation_policy: ::core::option::Option<i32>,
    /// Pad with zeros to whole windows. False: crop the middle to whole patches; an image is refused where they are no whole
    /// windows. Absent: true.
    #[prost(bool, optional, tag="8")]
    pub pad_input: ::core::option::Option<bool>,
}
/// The processor of GLM-4.1V, GLM-4.5V, GLM-4.6V and GLM-OCR for still images. Rows and shape are those of `QwenVlConfig`.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GlmVlConfig {
    /// Side of a square patch, in pixels.
    #[prost(uint32, optional, tag="1")]
    pub patch_size: ::core::option::Option<u32>,
    /// Frames that a row of features holds; a still image is repeated so often.
    #[prost(uint32, optional, tag="2")]
    pub temporal_patch_size: ::core::option::Option<u32>,
    /// Patches per side of the square that the model merges into one token.
    #[prost(uint32, optional, tag="3")]
    pub merge_size: ::core::option::Option<u32>,
    /// Smallest area of all `temporal_patch_size` frames together, in pixels. `size.shortest_edge` in the JSON.
    #[prost(uint32, optional, tag="4")]
    pub min_pixels: ::core::option::Option<u32>,
    /// Largest area of all `temporal_patch_size` frames together, in pixels. `size.longest_edge` in the JSON.
    #[prost(uint32, optional, tag="5")]
    pub max_pixels: ::core::option::Option<u32>,
    /// Mean of each channel, on a scale of 0 to 1.
    #[prost(message, optional, tag="6")]
    pub image_mean: ::core::option::Option<ChannelValues>,
    /// Standard deviation of each channel, on a scale of 0 to 1. Larger than 0.
    #[prost(message, optional, tag="7")]
    pub image_std: ::core::option::Option<ChannelValues>,
    /// Order and rounding of the resize. Absent: ATEN_U8.
    #[prost(enumeration="ResampleKernel", optional, tag="8")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What becomes of an alpha channel. Absent: DROP.
    #[prost(enumeration="AlphaPolicy", optional, tag="9")]
    pub alpha_policy: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP.
    #[prost(enumeration="OrientationPolicy", optional, tag="10")]
    pub orientation_policy: ::core::option::Option<i32>,
}
/// The processor of GLM5-Next for still images: whole windows as a canvas, padded with zero pixels. Rows and shape are those of
/// `QwenVlConfig`.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GlmNextConfig {
    /// Side of a square patch, in pixels.
    #[prost(uint32, optional, tag="1")]
    pub patch_size: ::core::option::Option<u32>,
    /// Frames that a row of features holds; a still image is repeated so often.
    #[prost(uint32, optional, tag="2")]
    pub temporal_patch_size: ::core::option::Option<u32>,
    /// Patches per side of the square that the model merges into one token.
    #[prost(uint32, optional, tag="3")]
    pub merge_size: ::core::option::Option<u32>,
    /// Windows a side that a canvas is a multiple of. The PILLOW kernels' own backend ignores it.
    #[prost(uint32, optional, tag="4")]
    pub patch_expand_factor: ::core::option::Option<u32>,
    /// Fewest tokens of an image; smaller images are enlarged.
    #[prost(uint32, optional, tag="5")]
    pub min_image_tokens: ::core::option::Option<u32>,
    /// Most tokens of an image; larger images are shrunk.
    #[prost(uint32, optional, tag="6")]
    pub max_image_tokens: ::core::option::Option<u32>,
    /// Mean of each channel, on a scale of 0 to 1.
    #[prost(message, optional, tag="7")]
    pub image_mean: ::core::option::Option<ChannelValues>,
    /// Standard deviation of each channel, on a scale of 0 to 1. Larger than 0.
    #[prost(message, optional, tag="8")]
    pub image_std: ::core::option::Option<ChannelValues>,
    /// Order and rounding of the resize. Absent: ATEN_U8.
    #[prost(enumeration="ResampleKernel", optional, tag="9")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What becomes of an alpha channel. Absent: DROP.
    #[prost(enumeration="AlphaPolicy", optional, tag="10")]
    pub alpha_policy: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP.
    #[prost(enumeration="OrientationPolicy", optional, tag="11")]
    pub orientation_policy: ::core::option::Option<i32>,
}
/// The processor of CLIP and SigLIP: every image gets one size. Features have the shape [1, 3, height, width], and a plan says
/// `fixed_size`.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FixedSizeConfig {
    /// What is cut from the middle of the resized image, between zero pixels where it is smaller. Absent: nothing is cut.
    #[prost(message, optional, tag="3")]
    pub crop_size: ::core::option::Option<Size>,
    /// The shape of the resize's weights. Absent: BICUBIC.
    #[prost(enumeration="ResampleFilter", optional, tag="4")]
    pub resample_filter: ::core::option::Option<i32>,
    /// Side of the encoder's patches, in pixels; they decide the token count alone. Absent: token counts are not known, and 0.
    #[prost(uint32, optional, tag="5")]
    pub patch_size: ::core::option::Option<u32>,
    /// Tokens that the encoder has besides those of its patches. Absent: 0.
    #[prost(uint32, optional, tag="6")]
    pub class_token_count: ::core::option::Option<u32>,
    /// Mean of each channel, on a scale of 0 to 1.
    #[prost(message, optional, tag="7")]
    pub image_mean: ::core::option::Option<ChannelValues>,
    /// Standard deviation of each channel, on a scale of 0 to 1. Larger than 0.
    #[prost(message, optional, tag="8")]
    pub image_std: ::core::option::Option<ChannelValues>,
    /// Order and rounding of the resize. Absent: ATEN_U8.
    #[prost(enumeration="ResampleKernel", optional, tag="9")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What becomes of an alpha channel. Absent: DROP.
    #[prost(enumeration="AlphaPolicy", optional, tag="10")]
    pub alpha_policy: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP.
    #[prost(enumeration="OrientationPolicy", optional, tag="11")]
    pub orientation_policy: ::core::option::Option<i32>,
    /// `size` in the JSON.
    #[prost(oneof="fixed_size_config::Resize", tags="1, 2")]
    pub resize: ::core::option::Option<fixed_size_config::Resize>,
}
/// Nested message and enum types in `FixedSizeConfig`.
pub mod fixed_size_config {
    /// `size` in the JSON.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Resize {
        /// The shorter side becomes this long. A crop is needed then, without which images would have sizes of their own.
        #[prost(message, tag="1")]
        ShortestEdge(super::ShortestEdge),
        /// Height and width, whatever the proportions.
        #[prost(message, tag="2")]
        ExactSize(super::Size),
    }
}
/// A resize by the shorter side.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ShortestEdge {
    /// Length of the shorter side, in pixels.
    #[prost(uint32, optional, tag="1")]
    pub length_px: ::core::option::Option<u32>,
    /// No side becomes longer than this, whatever becomes of the shorter one. Absent: no bound.
    #[prost(uint32, optional, tag="2")]
    pub longest_edge_px: ::core::option::Option<u32>,
}
/// The processor of InternVL: the grid of tiles whose proportions are the image's, and a thumbnail. Features have the shape
/// [tiles, 3, tile_size, tile_size], and a plan says `tile_grid`.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InternVlConfig {
    /// Side of a tile, in pixels.
    #[prost(uint32, optional, tag="1")]
    pub tile_size: ::core::option::Option<u32>,
    /// Fewest tiles of an image, without the thumbnail.
    #[prost(uint32, optional, tag="2")]
    pub min_tiles: ::core::option::Option<u32>,
    /// Most tiles of an image, without the thumbnail.
    #[prost(uint32, optional, tag="3")]
    pub max_tiles: ::core::option::Option<u32>,
    /// The whole image is one more tile, the last, where it has more than one. Absent: true.
    #[prost(bool, optional, tag="4")]
    pub has_thumbnail: ::core::option::Option<bool>,
    /// Tokens that the encoder's output has for a tile. Absent: token counts are not known, and 0.
    #[prost(uint32, optional, tag="5")]
    pub tokens_per_tile: ::core::option::Option<u32>,
    /// Mean of each channel, on a scale of 0 to 1.
    #[prost(message, optional, tag="6")]
    pub image_mean: ::core::option::Option<ChannelValues>,
    /// Standard deviation of each channel, on a scale of 0 to 1. Larger than 0.
    #[prost(message, optional, tag="7")]
    pub image_std: ::core::option::Option<ChannelValues>,
    /// Order and rounding of the resize: ATEN_U8 for the native checkpoints of transformers, a PILLOW kernel for those that bring
    /// their own code. Absent: ATEN_U8.
    #[prost(enumeration="ResampleKernel", optional, tag="8")]
    pub resample_kernel: ::core::option::Option<i32>,
    /// What becomes of an alpha channel. Absent: DROP.
    #[prost(enumeration="AlphaPolicy", optional, tag="9")]
    pub alpha_policy: ::core::option::Option<i32>,
    /// What to do with an image's EXIF orientation. Absent: KEEP.
    #[prost(enumeration="OrientationPolicy", optional, tag="10")]
    pub orientation_policy: ::core::option::Option<i32>,
}
/// One number for each colour channel.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ChannelValues {
    /// Red.
    #[prost(double, optional, tag="1")]
    pub red: ::core::option::Option<f64>,
    /// Green.
    #[prost(double, optional, tag="2")]
    pub green: ::core::option::Option<f64>,
    /// Blue.
    #[prost(double, optional, tag="3")]
    pub blue: ::core::option::Option<f64>,
}
/// What is put behind transparent pixels. Absent fields have the checkpoint code's own defaults, given with each.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TransparentBackground {
    /// The pattern.
    #[prost(enumeration="BackgroundPattern", tag="1")]
    pub pattern: i32,
    /// Side of a chessboard square, in pixels. Absent: 16.
    #[prost(uint32, optional, tag="2")]
    pub chessboard_square_size: ::core::option::Option<u32>,
    /// The square at the top left is white. Absent: true.
    #[prost(bool, optional, tag="3")]
    pub chessboard_square_on_top_left: ::core::option::Option<bool>,
    /// Value of white squares. Absent: 255.
    #[prost(uint32, optional, tag="4")]
    pub chessboard_white_value: ::core::option::Option<u32>,
    /// Value of gray squares. Absent: 200.
    #[prost(uint32, optional, tag="5")]
    pub chessboard_gray_value: ::core::option::Option<u32>,
}
/// What a stream's results look like and how they travel.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OutputConfig {
    /// Element type of the features.
    #[prost(enumeration="DataType", tag="1")]
    pub data_type: i32,
    /// Order in which items end.
    #[prost(enumeration="ResultOrder", tag="2")]
    pub order: i32,
    /// Make every item's features anew: neither take them from the server's cache nor put them there.
    #[prost(bool, tag="3")]
    pub bypass_cache: bool,
    /// Responses that are there at the same time may come in one message, a `group`. Absent: each comes alone. A server of
    /// before 1.3.0 sends each alone.
    #[prost(bool, tag="4")]
    pub group_responses: bool,
    /// How features travel.
    #[prost(oneof="output_config::Transport", tags="11, 12, 13")]
    pub transport: ::core::option::Option<output_config::Transport>,
}
/// Nested message and enum types in `OutputConfig`.
pub mod output_config {
    /// How features travel.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Transport {
        /// In the response messages.
        #[prost(message, tag="11")]
        Inline(super::InlineTransport),
        /// In shared memory of the host that client and server share.
        #[prost(message, tag="12")]
        SharedMemory(super::SharedMemoryTransport),
        /// In the memory of a GPU that client and server share.
        #[prost(message, tag="13")]
        CudaIpc(super::CudaIpcTransport),
    }
}
/// Features travel in the response messages, in chunks.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InlineTransport {
    /// Bytes of a chunk. Absent: the server's setting.
    #[prost(uint32, optional, tag="1")]
    pub chunk_bytes: ::core::option::Option<u32>,
}
/// Features travel in shared memory: a response carries a handle, whose memory is leased to the client until it sends the
/// item's `Release`, the stream ends, or the lease runs out. Memory that was not released is never used for other features,
/// so bytes read late are still the item's own; but a segment loses its name a few seconds after the stream's end, so map
/// it when its handle comes. Where the server has no shared memory left, an item's features come in chunks instead. Items
/// may carry handles too: their memory has to stay as it is until the item has ended.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryTransport {
    /// A segment of the client's. Where the server does not find it, the stream is refused.
    #[prost(message, optional, tag="1")]
    pub probe: ::core::option::Option<SharedMemoryProbe>,
}
/// Features stay in the memory of the GPU: a response carries a handle, leased as shared memory is. Client and server run on
/// one host, in one PID namespace, and see the same GPU; the stream is refused where they do not.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CudaIpcTransport {
    /// The client's /proc/sys/kernel/random/boot_id.
    #[prost(string, tag="1")]
    pub boot_id: ::prost::alloc::string::String,
    /// What the client's /proc/self/ns/pid points to, such as "pid:\[4026531836\]".
    #[prost(string, tag="2")]
    pub pid_namespace: ::prost::alloc::string::String,
    /// UUIDs of the GPUs that the client sees, as their driver prints them.
    #[prost(string, repeated, tag="3")]
    pub device_uuids: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// The resize arithmetic, to the bit: that of `Image.resize(..., BICUBIC)` of the Pillow releases named, which differ in which
/// axis is filtered first, or torchvision's. Honoured whatever the server has installed. With it goes the normalisation of the
/// same backend, where a family's own code has two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ResampleKernel {
    /// Not a kernel. Refused.
    Unspecified = 0,
    /// Pillow up to 12.1.1: horizontal, then vertical.
    Pillow11 = 1,
    /// Pillow 12.2 and 12.3: vertical first for images over 100 times as high as wide that lose height.
    Pillow122 = 2,
    /// Pillow 13: vertical first where the height shrinks by more than twice what the width does.
    Pillow13 = 3,
    /// torchvision's resize of uint8 on a CPU, antialiased: weights of 15 bits and a sign, horizontal first.
    AtenU8 = 4,
}
impl ResampleKernel {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            ResampleKernel::Unspecified => "RESAMPLE_KERNEL_UNSPECIFIED",
            ResampleKernel::Pillow11 => "RESAMPLE_KERNEL_PILLOW_11",
            ResampleKernel::Pillow122 => "RESAMPLE_KERNEL_PILLOW_12_2",
            ResampleKernel::Pillow13 => "RESAMPLE_KERNEL_PILLOW_13",
            ResampleKernel::AtenU8 => "RESAMPLE_KERNEL_ATEN_U8",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "RESAMPLE_KERNEL_UNSPECIFIED" => Some(Self::Unspecified),
            "RESAMPLE_KERNEL_PILLOW_11" => Some(Self::Pillow11),
            "RESAMPLE_KERNEL_PILLOW_12_2" => Some(Self::Pillow122),
            "RESAMPLE_KERNEL_PILLOW_13" => Some(Self::Pillow13),
            "RESAMPLE_KERNEL_ATEN_U8" => Some(Self::AtenU8),
            _ => None,
        }
    }
}
/// What to do with the orientation that a file's EXIF data name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum OrientationPolicy {
    /// Not a policy. Refused.
    Unspecified = 0,
    /// Ignore it: pixels stay as stored.
    Keep = 1,
    /// Apply it once, before sizes are taken.
    Apply = 2,
}
impl OrientationPolicy {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            OrientationPolicy::Unspecified => "ORIENTATION_POLICY_UNSPECIFIED",
            OrientationPolicy::Keep => "ORIENTATION_POLICY_KEEP",
            OrientationPolicy::Apply => "ORIENTATION_POLICY_APPLY",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ORIENTATION_POLICY_UNSPECIFIED" => Some(Self::Unspecified),
            "ORIENTATION_POLICY_KEEP" => Some(Self::Keep),
            "ORIENTATION_POLICY_APPLY" => Some(Self::Apply),
            _ => None,
        }
    }
}
/// What becomes of an alpha channel, in families whose processor reads RGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum AlphaPolicy {
    /// Not a policy. Refused.
    Unspecified = 0,
    /// It is dropped: transparent pixels have the colour that is stored for them.
    Drop = 1,
    /// Pixels are composited on white, rounded to the nearest.
    White = 2,
}
impl AlphaPolicy {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            AlphaPolicy::Unspecified => "ALPHA_POLICY_UNSPECIFIED",
            AlphaPolicy::Drop => "ALPHA_POLICY_DROP",
            AlphaPolicy::White => "ALPHA_POLICY_WHITE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ALPHA_POLICY_UNSPECIFIED" => Some(Self::Unspecified),
            "ALPHA_POLICY_DROP" => Some(Self::Drop),
            "ALPHA_POLICY_WHITE" => Some(Self::White),
            _ => None,
        }
    }
}
/// The shape of a resize's weights, which are spread out where an image shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ResampleFilter {
    /// Not a filter. Refused.
    Unspecified = 0,
    /// Keys' cubic with a = -0.5. 3 in the JSON.
    Bicubic = 1,
    /// A triangle. 2 in the JSON.
    Bilinear = 2,
}
impl ResampleFilter {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            ResampleFilter::Unspecified => "RESAMPLE_FILTER_UNSPECIFIED",
            ResampleFilter::Bicubic => "RESAMPLE_FILTER_BICUBIC",
            ResampleFilter::Bilinear => "RESAMPLE_FILTER_BILINEAR",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "RESAMPLE_FILTER_UNSPECIFIED" => Some(Self::Unspecified),
            "RESAMPLE_FILTER_BICUBIC" => Some(Self::Bicubic),
            "RESAMPLE_FILTER_BILINEAR" => Some(Self::Bilinear),
            _ => None,
        }
    }
}
/// What lies behind transparent pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum BackgroundPattern {
    /// Not a pattern. Refused.
    Unspecified = 0,
    /// 255 in each channel.
    White = 1,
    /// 0 in each channel.
    Black = 2,
    /// 128 in each channel.
    Gray = 3,
    /// Squares of two values in turn.
    Chessboard = 4,
}
impl BackgroundPattern {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            BackgroundPattern::Unspecified => "BACKGROUND_PATTERN_UNSPECIFIED",
            BackgroundPattern::White => "BACKGROUND_PATTERN_WHITE",
            BackgroundPattern::Black => "BACKGROUND_PATTERN_BLACK",
            BackgroundPattern::Gray => "BACKGROUND_PATTERN_GRAY",
            BackgroundPattern::Chessboard => "BACKGROUND_PATTERN_CHESSBOARD",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "BACKGROUND_PATTERN_UNSPECIFIED" => Some(Self::Unspecified),
            "BACKGROUND_PATTERN_WHITE" => Some(Self::White),
            "BACKGROUND_PATTERN_BLACK" => Some(Self::Black),
            "BACKGROUND_PATTERN_GRAY" => Some(Self::Gray),
            "BACKGROUND_PATTERN_CHESSBOARD" => Some(Self::Chessboard),
            _ => None,
        }
    }
}
/// When the background is put behind transparent pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum TransparentFillStage {
    /// Not a stage. Refused.
    Unspecified = 0,
    /// At load, at the original size.
    BeforeResize = 1,
    /// After the resize, which then works in the image's own mode.
    AfterResize = 2,
}
impl TransparentFillStage {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            TransparentFillStage::Unspecified => "TRANSPARENT_FILL_STAGE_UNSPECIFIED",
            TransparentFillStage::BeforeResize => "TRANSPARENT_FILL_STAGE_BEFORE_RESIZE",
            TransparentFillStage::AfterResize => "TRANSPARENT_FILL_STAGE_AFTER_RESIZE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "TRANSPARENT_FILL_STAGE_UNSPECIFIED" => Some(Self::Unspecified),
            "TRANSPARENT_FILL_STAGE_BEFORE_RESIZE" => Some(Self::BeforeResize),
            "TRANSPARENT_FILL_STAGE_AFTER_RESIZE" => Some(Self::AfterResize),
            _ => None,
        }
    }
}
/// Order in which the items of a stream end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ResultOrder {
    /// Not an order. Refused.
    Unspecified = 0,
    /// As soon as each is done; items may interleave.
    AsCompleted = 1,
    /// In the order in which they were sent.
    AsSent = 2,
}
impl ResultOrder {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            ResultOrder::Unspecified => "RESULT_ORDER_UNSPECIFIED",
            ResultOrder::AsCompleted => "RESULT_ORDER_AS_COMPLETED",
            ResultOrder::AsSent => "RESULT_ORDER_AS_SENT",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "RESULT_ORDER_UNSPECIFIED" => Some(Self::Unspecified),
            "RESULT_ORDER_AS_COMPLETED" => Some(Self::AsCompleted),
            "RESULT_ORDER_AS_SENT" => Some(Self::AsSent),
            _ => None,
        }
    }
}
/// The end of one item that has no features. Its stream and its neighbours go on.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ItemError {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// The item's label, as sent.
    #[prost(string, tag="2")]
    pub label: ::prost::alloc::string::String,
    /// Why.
    #[prost(enumeration="ItemErrorReason", tag="3")]
    pub reason: i32,
    /// The same in words, with what was expected and what was found.
    #[prost(string, tag="4")]
    pub message: ::prost::alloc::string::String,
    /// The field of the item that is wrong, where one is: "image.pixels.format".
    #[prost(string, tag="5")]
    pub field: ::prost::alloc::string::String,
    /// When the same item may be sent again. Present where the reason is retryable.
    #[prost(message, optional, tag="6")]
    pub retry_after: ::core::option::Option<::prost_types::Duration>,
}
/// A stream that is broken, told in the stream itself: stop writing and half-close. The status with the same reason follows
/// once the items accepted before have ended and the client has half-closed (or a bound of time and bytes is reached).
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamFailure {
    /// Why. The status carries the same as `google.rpc.ErrorInfo.reason`, in the domain "monopath.v1".
    #[prost(enumeration="StreamErrorReason", tag="1")]
    pub reason: i32,
    /// The same in words.
    #[prost(string, tag="2")]
    pub message: ::prost::alloc::string::String,
    /// Every wrong field, where fields are wrong.
    #[prost(message, repeated, tag="3")]
    pub violations: ::prost::alloc::vec::Vec<FieldViolation>,
}
/// One wrong or missing field.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FieldViolation {
    /// Path of the field, as its author wrote it: "processor.kimi.image_std", "media_proc_cfg.patch_size".
    #[prost(string, tag="1")]
    pub field: ::prost::alloc::string::String,
    /// What was expected and what was found.
    #[prost(string, tag="2")]
    pub description: ::prost::alloc::string::String,
}
/// Why one item failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ItemErrorReason {
    /// Not a reason. Never sent.
    Unspecified = 0,
    /// A field of the item is unset, unknown or out of range; `field` names it.
    FieldInvalid = 1,
    /// The image has no bytes.
    ImageEmpty = 2,
    /// The bytes are of no image format that this server reads.
    ImageUnsupported = 3,
    /// The image file is truncated or damaged.
    ImageDamaged = 4,
    /// A side or the number of pixels is over the server's limit.
    ImageTooLarge = 5,
    /// The file's or the raw pixels' bytes are over the server's limit.
    ImageBytesExceeded = 6,
    /// A side is zero.
    ImageSizeInvalid = 7,
    /// Raw pixels are not width x height x channels bytes.
    PixelsSizeMismatch = 8,
    /// The content is not what the client's digest says.
    ContentDigestMismatch = 9,
    /// The config's fixed_output_tokens contradict the grid of this image.
    TokenCountContradiction = 10,
    /// The features would be over the server's limit.
    FeaturesTooLarge = 11,
    /// Finished features do not fit the plan of their original size; `field` names what differs.
    FeaturesMismatch = 12,
    /// Finished features hold a NaN or an infinity, or a value that is infinite in the stream's element type.
    FeaturesNotFinite = 13,
    /// Chunks of finished features are missing, overlap, or the stream was half-closed before the last.
    FeaturesIncomplete = 14,
    /// The bytes are in a place that this stream or this server does not take them from.
    LocationUnsupported = 15,
    /// A memory handle is not one of ours, out of range, or used before.
    HandleInvalid = 16,
    /// The client cancelled the item.
    Cancelled = 17,
    /// The server has no room for the item now.
    Overloaded = 18,
    /// The GPU has no memory for the item now.
    DeviceOutOfMemory = 19,
    /// A fault of the server. Its log has the details.
    Internal = 20,
}
impl ItemErrorReason {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            ItemErrorReason::Unspecified => "ITEM_ERROR_REASON_UNSPECIFIED",
            ItemErrorReason::FieldInvalid => "ITEM_ERROR_REASON_FIELD_INVALID",
            ItemErrorReason::ImageEmpty => "ITEM_ERROR_REASON_IMAGE_EMPTY",
            ItemErrorReason::ImageUnsupported => "ITEM_ERROR_REASON_IMAGE_UNSUPPORTED",
            ItemErrorReason::ImageDamaged => "ITEM_ERROR_REASON_IMAGE_DAMAGED",
            ItemErrorReason::ImageTooLarge => "ITEM_ERROR_REASON_IMAGE_TOO_LARGE",
            ItemErrorReason::ImageBytesExceeded => "ITEM_ERROR_REASON_IMAGE_BYTES_EXCEEDED",
            ItemErrorReason::ImageSizeInvalid => "ITEM_ERROR_REASON_IMAGE_SIZE_INVALID",
            ItemErrorReason::PixelsSizeMismatch => "ITEM_ERROR_REASON_PIXELS_SIZE_MISMATCH",
            ItemErrorReason::ContentDigestMismatch => "ITEM_ERROR_REASON_CONTENT_DIGEST_MISMATCH",
            ItemErrorReason::TokenCountContradiction => "ITEM_ERROR_REASON_TOKEN_COUNT_CONTRADICTION",
            ItemErrorReason::FeaturesTooLarge => "ITEM_ERROR_REASON_FEATURES_TOO_LARGE",
            ItemErrorReason::FeaturesMismatch => "ITEM_ERROR_REASON_FEATURES_MISMATCH",
            ItemErrorReason::FeaturesNotFinite => "ITEM_ERROR_REASON_FEATURES_NOT_FINITE",
            ItemErrorReason::FeaturesIncomplete => "ITEM_ERROR_REASON_FEATURES_INCOMPLETE",
            ItemErrorReason::LocationUnsupported => "ITEM_ERROR_REASON_LOCATION_UNSUPPORTED",
            ItemErrorReason::HandleInvalid => "ITEM_ERROR_REASON_HANDLE_INVALID",
            ItemErrorReason::Cancelled => "ITEM_ERROR_REASON_CANCELLED",
            ItemErrorReason::Overloaded => "ITEM_ERROR_REASON_OVERLOADED",
            ItemErrorReason::DeviceOutOfMemory => "ITEM_ERROR_REASON_DEVICE_OUT_OF_MEMORY",
            ItemErrorReason::Internal => "ITEM_ERROR_REASON_INTERNAL",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ITEM_ERROR_REASON_UNSPECIFIED" => Some(Self::Unspecified),
            "ITEM_ERROR_REASON_FIELD_INVALID" => Some(Self::FieldInvalid),
            "ITEM_ERROR_REASON_IMAGE_EMPTY" => Some(Self::ImageEmpty),
            "ITEM_ERROR_REASON_IMAGE_UNSUPPORTED" => Some(Self::ImageUnsupported),
            "ITEM_ERROR_REASON_IMAGE_DAMAGED" => Some(Self::ImageDamaged),
            "ITEM_ERROR_REASON_IMAGE_TOO_LARGE" => Some(Self::ImageTooLarge),
            "ITEM_ERROR_REASON_IMAGE_BYTES_EXCEEDED" => Some(Self::ImageBytesExceeded),
            "ITEM_ERROR_REASON_IMAGE_SIZE_INVALID" => Some(Self::ImageSizeInvalid),
            "ITEM_ERROR_REASON_PIXELS_SIZE_MISMATCH" => Some(Self::PixelsSizeMismatch),
            "ITEM_ERROR_REASON_CONTENT_DIGEST_MISMATCH" => Some(Self::ContentDigestMismatch),
            "ITEM_ERROR_REASON_TOKEN_COUNT_CONTRADICTION" => Some(Self::TokenCountContradiction),
            "ITEM_ERROR_REASON_FEATURES_TOO_LARGE" => Some(Self::FeaturesTooLarge),
            "ITEM_ERROR_REASON_FEATURES_MISMATCH" => Some(Self::FeaturesMismatch),
            "ITEM_ERROR_REASON_FEATURES_NOT_FINITE" => Some(Self::FeaturesNotFinite),
            "ITEM_ERROR_REASON_FEATURES_INCOMPLETE" => Some(Self::FeaturesIncomplete),
            "ITEM_ERROR_REASON_LOCATION_UNSUPPORTED" => Some(Self::LocationUnsupported),
            "ITEM_ERROR_REASON_HANDLE_INVALID" => Some(Self::HandleInvalid),
            "ITEM_ERROR_REASON_CANCELLED" => Some(Self::Cancelled),
            "ITEM_ERROR_REASON_OVERLOADED" => Some(Self::Overloaded),
            "ITEM_ERROR_REASON_DEVICE_OUT_OF_MEMORY" => Some(Self::DeviceOutOfMemory),
            "ITEM_ERROR_REASON_INTERNAL" => Some(Self::Internal),
            _ => None,
        }
    }
}
/// Why a stream or a unary call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum StreamErrorReason {
    /// Not a reason. Never sent.
    Unspecified = 0,
    /// The config has missing or wrong fields; all of them are named.
    ConfigInvalid = 1,
    /// The first message is not a config, or none came.
    ConfigMissing = 2,
    /// A second config on one stream.
    ConfigRepeated = 3,
    /// A message with no payload that this method knows, such as one of another path.
    PayloadUnknown = 4,
    /// An item id is not positive, not larger than the one before, or was never sent.
    ItemIdInvalid = 5,
    /// A field of a unary request is wrong.
    RequestInvalid = 6,
    /// The path's device is not there. A path never becomes another one silently.
    DeviceUnavailable = 7,
    /// The transport asked for is not there.
    TransportUnavailable = 8,
    /// The server is stopping.
    Draining = 9,
    /// The server has no room for another stream now.
    Overloaded = 10,
    /// The client said nothing for too long.
    ClientSilent = 11,
    /// The client did not read its responses for too long. One that reads nothing at all sees CANCELLED: a status can only
    /// follow what is stuck before it.
    RepliesUnread = 12,
    /// A fault of the server. Its log has the details.
    Internal = 13,
    /// The server takes calls with a bearer token only, and the call has none that it knows. Sent before a request is read.
    CredentialsInvalid = 14,
}
impl StreamErrorReason {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            StreamErrorReason::Unspecified => "STREAM_ERROR_REASON_UNSPECIFIED",
            StreamErrorReason::ConfigInvalid => "STREAM_ERROR_REASON_CONFIG_INVALID",
            StreamErrorReason::ConfigMissing => "STREAM_ERROR_REASON_CONFIG_MISSING",
            StreamErrorReason::ConfigRepeated => "STREAM_ERROR_REASON_CONFIG_REPEATED",
            StreamErrorReason::PayloadUnknown => "STREAM_ERROR_REASON_PAYLOAD_UNKNOWN",
            StreamErrorReason::ItemIdInvalid => "STREAM_ERROR_REASON_ITEM_ID_INVALID",
            StreamErrorReason::RequestInvalid => "STREAM_ERROR_REASON_REQUEST_INVALID",
            StreamErrorReason::DeviceUnavailable => "STREAM_ERROR_REASON_DEVICE_UNAVAILABLE",
            StreamErrorReason::TransportUnavailable => "STREAM_ERROR_REASON_TRANSPORT_UNAVAILABLE",
            StreamErrorReason::Draining => "STREAM_ERROR_REASON_DRAINING",
            StreamErrorReason::Overloaded => "STREAM_ERROR_REASON_OVERLOADED",
            StreamErrorReason::ClientSilent => "STREAM_ERROR_REASON_CLIENT_SILENT",
            StreamErrorReason::RepliesUnread => "STREAM_ERROR_REASON_REPLIES_UNREAD",
            StreamErrorReason::Internal => "STREAM_ERROR_REASON_INTERNAL",
            StreamErrorReason::CredentialsInvalid => "STREAM_ERROR_REASON_CREDENTIALS_INVALID",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "STREAM_ERROR_REASON_UNSPECIFIED" => Some(Self::Unspecified),
            "STREAM_ERROR_REASON_CONFIG_INVALID" => Some(Self::ConfigInvalid),
            "STREAM_ERROR_REASON_CONFIG_MISSING" => Some(Self::ConfigMissing),
            "STREAM_ERROR_REASON_CONFIG_REPEATED" => Some(Self::ConfigRepeated),
            "STREAM_ERROR_REASON_PAYLOAD_UNKNOWN" => Some(Self::PayloadUnknown),
            "STREAM_ERROR_REASON_ITEM_ID_INVALID" => Some(Self::ItemIdInvalid),
            "STREAM_ERROR_REASON_REQUEST_INVALID" => Some(Self::RequestInvalid),
            "STREAM_ERROR_REASON_DEVICE_UNAVAILABLE" => Some(Self::DeviceUnavailable),
            "STREAM_ERROR_REASON_TRANSPORT_UNAVAILABLE" => Some(Self::TransportUnavailable),
            "STREAM_ERROR_REASON_DRAINING" => Some(Self::Draining),
            "STREAM_ERROR_REASON_OVERLOADED" => Some(Self::Overloaded),
            "STREAM_ERROR_REASON_CLIENT_SILENT" => Some(Self::ClientSilent),
            "STREAM_ERROR_REASON_REPLIES_UNREAD" => Some(Self::RepliesUnread),
            "STREAM_ERROR_REASON_INTERNAL" => Some(Self::Internal),
            "STREAM_ERROR_REASON_CREDENTIALS_INVALID" => Some(Self::CredentialsInvalid),
            _ => None,
        }
    }
}
/// Gives leased memory of an item back. Harmless where nothing of the item is leased.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Release {
    /// The item whose memory the client no longer reads.
    #[prost(int32, tag="1")]
    pub id: i32,
}
/// Asks the server to drop an item. It still ends exactly once: with an error CANCELLED, or as it had ended before.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Cancellation {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
}
/// The stream is open: the config holds, and items may be sent.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Ready {
    /// The path of this stream.
    #[prost(enumeration="PreprocessingPath", tag="1")]
    pub path: i32,
    /// The config that holds, typed and complete, whatever form it was given in.
    #[prost(message, optional, tag="2")]
    pub processor: ::core::option::Option<ProcessorConfig>,
    /// SHA-256 of the config's canonical form. Equal digests give equal features.
    #[prost(bytes="bytes", tag="3")]
    pub config_sha256: ::prost::bytes::Bytes,
    /// What the server ignored in the config.
    #[prost(message, repeated, tag="4")]
    pub warnings: ::prost::alloc::vec::Vec<FieldViolation>,
    /// What the server takes on this stream.
    #[prost(message, optional, tag="5")]
    pub limits: ::core::option::Option<StreamLimits>,
    /// For UINT8 features: the value of each channel (3) and pixel value (256), FLOAT32 [3, 256]. Look-up finishes them.
    #[prost(message, optional, tag="6")]
    pub normalize_table: ::core::option::Option<Tensor>,
    /// Where features are made: "cpu", or a GPU's UUID. Empty for LOCAL.
    #[prost(string, tag="7")]
    pub device: ::prost::alloc::string::String,
    /// The server's release.
    #[prost(string, tag="8")]
    pub server_version: ::prost::alloc::string::String,
    /// For streams over shared memory.
    #[prost(message, optional, tag="9")]
    pub shared_memory: ::core::option::Option<SharedMemoryOffer>,
    /// For streams over CUDA IPC.
    #[prost(message, optional, tag="10")]
    pub cuda_ipc: ::core::option::Option<CudaIpcOffer>,
}
/// What a client needs to know of the server's shared memory.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryOffer {
    /// A segment of the server's. A client that does not find it ends the stream.
    #[prost(message, optional, tag="1")]
    pub probe: ::core::option::Option<SharedMemoryProbe>,
    /// How long features stay leased without a release.
    #[prost(message, optional, tag="2")]
    pub lease_timeout: ::core::option::Option<::prost_types::Duration>,
}
/// What a client needs to know of the server's GPU memory.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CudaIpcOffer {
    /// Memory of the server's. A client that cannot open it, or finds other bytes in it, ends the stream.
    #[prost(message, optional, tag="1")]
    pub probe: ::core::option::Option<CudaIpcHandle>,
    /// The bytes in it.
    #[prost(bytes="bytes", tag="2")]
    pub nonce: ::prost::bytes::Bytes,
    /// How long features stay leased without a release.
    #[prost(message, optional, tag="3")]
    pub lease_timeout: ::core::option::Option<::prost_types::Duration>,
}
/// What a server takes. Reaching the unfinished ones is no error: the server stops reading until items have ended.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamLimits {
    /// Items without an end on one stream.
    #[prost(uint32, tag="1")]
    pub max_unfinished_items: u32,
    /// Bytes of items without an end on one stream.
    #[prost(uint64, tag="2")]
    pub max_unfinished_bytes: u64,
    /// Bytes of one image: of its file, or of its raw pixels.
    #[prost(uint32, tag="3")]
    pub max_image_bytes: u32,
    /// Pixels on one side of an image.
    #[prost(uint32, tag="4")]
    pub max_image_side_px: u32,
    /// Pixels of an image.
    #[prost(uint32, tag="5")]
    pub max_image_pixels: u32,
    /// Bytes of one item's features.
    #[prost(uint32, tag="6")]
    pub max_feature_bytes: u32,
    /// Bytes of one request message.
    #[prost(uint32, tag="7")]
    pub max_request_bytes: u32,
    /// Bytes of features in one response message.
    #[prost(uint32, tag="8")]
    pub chunk_bytes: u32,
    /// Pixels of items without an end on one stream.
    #[prost(uint32, tag="9")]
    pub max_unfinished_pixels: u32,
}
/// What will come of an item, told from its header, before a pixel of it is decoded.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ItemPlan {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// The path that the item takes.
    #[prost(enumeration="PreprocessingPath", tag="2")]
    pub path: i32,
    /// Geometry, token count and the exact tensor.
    #[prost(message, optional, tag="3")]
    pub plan: ::core::option::Option<ImagePlan>,
}
/// From what and by what features were made; enough to know whether two results must be equal.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Provenance {
    /// The path that the item took.
    #[prost(enumeration="PreprocessingPath", tag="1")]
    pub path: i32,
    /// SHA-256 of the config's canonical form.
    #[prost(bytes="bytes", tag="2")]
    pub config_sha256: ::prost::bytes::Bytes,
    /// SHA-256 of the image's bytes as sent: the file, or the raw pixels. For LOCAL what the client declared, if it did.
    #[prost(bytes="bytes", tag="3")]
    pub content_sha256: ::prost::bytes::Bytes,
    /// The resize arithmetic. Unspecified for LOCAL, where the server did not resize.
    #[prost(enumeration="ResampleKernel", tag="4")]
    pub resample_kernel: i32,
    /// Where the pixels were resized and converted.
    #[prost(enumeration="Route", tag="5")]
    pub route: i32,
    /// The release of Pillow that decoded the image, or would have.
    #[prost(string, tag="6")]
    pub pillow_version: ::prost::alloc::string::String,
    /// The server's release.
    #[prost(string, tag="7")]
    pub server_version: ::prost::alloc::string::String,
}
/// Time that an item spent in the server.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ItemTimings {
    /// From arrival until its plan was made.
    #[prost(message, optional, tag="1")]
    pub planning: ::core::option::Option<::prost_types::Duration>,
    /// Waiting for a worker.
    #[prost(message, optional, tag="2")]
    pub queued: ::core::option::Option<::prost_types::Duration>,
    /// Decoding.
    #[prost(message, optional, tag="3")]
    pub decoding: ::core::option::Option<::prost_types::Duration>,
    /// Resizing, padding, normalising and cutting into patches; for LOCAL: checking and converting.
    #[prost(message, optional, tag="4")]
    pub transforming: ::core::option::Option<::prost_types::Duration>,
}
/// What a stream came to. Its last message, followed by the status OK.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Summary {
    /// Items accepted. The sum of the three below.
    #[prost(uint32, tag="1")]
    pub accepted_count: u32,
    /// Items that ended with a completion.
    #[prost(uint32, tag="2")]
    pub completed_count: u32,
    /// Items that ended with an error other than CANCELLED.
    #[prost(uint32, tag="3")]
    pub failed_count: u32,
    /// Items that ended with the error CANCELLED.
    #[prost(uint32, tag="4")]
    pub cancelled_count: u32,
    /// Bytes of images or features received, however they came.
    #[prost(uint64, tag="5")]
    pub received_bytes: u64,
    /// Bytes of features sent, however they went.
    #[prost(uint64, tag="6")]
    pub sent_bytes: u64,
    /// Items whose features were sent in chunks because no shared memory was left.
    #[prost(uint32, tag="7")]
    pub fallback_count: u32,
}
/// Asks the client to send no more items here, half-close, and open a new stream. What was sent is still answered.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Goaway {
    /// Why.
    #[prost(enumeration="GoawayReason", tag="1")]
    pub reason: i32,
}
/// Where pixels were resized and converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum Route {
    /// Not a route. Never sent.
    Unspecified = 0,
    /// At the client.
    Client = 1,
    /// In the server's CPU kernels.
    Host = 2,
    /// In Pillow on the server's host, as the image's mode demands; padding, normalising and cutting where the path says.
    HostPillow = 3,
    /// In the GPU's kernels.
    Device = 4,
}
impl Route {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Route::Unspecified => "ROUTE_UNSPECIFIED",
            Route::Client => "ROUTE_CLIENT",
            Route::Host => "ROUTE_HOST",
            Route::HostPillow => "ROUTE_HOST_PILLOW",
            Route::Device => "ROUTE_DEVICE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ROUTE_UNSPECIFIED" => Some(Self::Unspecified),
            "ROUTE_CLIENT" => Some(Self::Client),
            "ROUTE_HOST" => Some(Self::Host),
            "ROUTE_HOST_PILLOW" => Some(Self::HostPillow),
            "ROUTE_DEVICE" => Some(Self::Device),
            _ => None,
        }
    }
}
/// What the server's cache had to do with an item's features. They are the same bytes in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum CacheOutcome {
    /// Not an outcome. Never sent.
    Unspecified = 0,
    /// Not asked: the client did not want it, or the server has none.
    Bypassed = 1,
    /// Made for this item.
    Miss = 2,
    /// Taken from the cache.
    Hit = 3,
    /// Made for another item with the same content at the same time, and shared with it.
    Joined = 4,
}
impl CacheOutcome {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            CacheOutcome::Unspecified => "CACHE_OUTCOME_UNSPECIFIED",
            CacheOutcome::Bypassed => "CACHE_OUTCOME_BYPASSED",
            CacheOutcome::Miss => "CACHE_OUTCOME_MISS",
            CacheOutcome::Hit => "CACHE_OUTCOME_HIT",
            CacheOutcome::Joined => "CACHE_OUTCOME_JOINED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "CACHE_OUTCOME_UNSPECIFIED" => Some(Self::Unspecified),
            "CACHE_OUTCOME_BYPASSED" => Some(Self::Bypassed),
            "CACHE_OUTCOME_MISS" => Some(Self::Miss),
            "CACHE_OUTCOME_HIT" => Some(Self::Hit),
            "CACHE_OUTCOME_JOINED" => Some(Self::Joined),
            _ => None,
        }
    }
}
/// Why a server asks its clients to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum GoawayReason {
    /// Not a reason. Never sent.
    Unspecified = 0,
    /// The server is stopping.
    Draining = 1,
    /// The stream is old; a new one may land on a replica with less to do.
    StreamAge = 2,
}
impl GoawayReason {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            GoawayReason::Unspecified => "GOAWAY_REASON_UNSPECIFIED",
            GoawayReason::Draining => "GOAWAY_REASON_DRAINING",
            GoawayReason::StreamAge => "GOAWAY_REASON_STREAM_AGE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "GOAWAY_REASON_UNSPECIFIED" => Some(Self::Unspecified),
            "GOAWAY_REASON_DRAINING" => Some(Self::Draining),
            "GOAWAY_REASON_STREAM_AGE" => Some(Self::StreamAge),
            _ => None,
        }
    }
}
/// An image, before anything was done to it. There is no URL: the server never fetches.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ImageSource {
    /// What the image is.
    #[prost(oneof="image_source::Content", tags="1, 2")]
    pub content: ::core::option::Option<image_source::Content>,
}
/// Nested message and enum types in `ImageSource`.
pub mod image_source {
    /// What the image is.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Content {
        /// A file, as it lies on disk.
        #[prost(message, tag="1")]
        Encoded(super::EncodedImage),
        /// Decoded pixels.
        #[prost(message, tag="2")]
        Pixels(super::RawPixels),
    }
}
/// An image file: JPEG, PNG, WebP and what else `GetCapabilities` lists. Its format is read from its first bytes. Of an
/// animated or multi-picture file the first frame counts.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct EncodedImage {
    /// Where the file's bytes are.
    #[prost(oneof="encoded_image::Location", tags="1, 2")]
    pub location: ::core::option::Option<encoded_image::Location>,
}
/// Nested message and enum types in `EncodedImage`.
pub mod encoded_image {
    /// Where the file's bytes are.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Location {
        /// In the message.
        #[prost(bytes, tag="1")]
        Data(::prost::bytes::Bytes),
        /// In shared memory.
        #[prost(message, tag="2")]
        SharedMemory(super::SharedMemoryHandle),
    }
}
/// Decoded pixels: 8 bits a channel, channels interleaved, lines top to bottom without gaps.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RawPixels {
    /// Pixels per line.
    #[prost(uint32, tag="1")]
    pub width_px: u32,
    /// Lines.
    #[prost(uint32, tag="2")]
    pub height_px: u32,
    /// Channels of a pixel and their order; never guessed from a shape.
    #[prost(enumeration="PixelFormat", tag="3")]
    pub format: i32,
    /// Where the pixels' bytes are: width x height x channels of them, exactly.
    #[prost(oneof="raw_pixels::Location", tags="4, 5, 6")]
    pub location: ::core::option::Option<raw_pixels::Location>,
}
/// Nested message and enum types in `RawPixels`.
pub mod raw_pixels {
    /// Where the pixels' bytes are: width x height x channels of them, exactly.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Location {
        /// In the message.
        #[prost(bytes, tag="4")]
        Data(::prost::bytes::Bytes),
        /// In shared memory.
        #[prost(message, tag="5")]
        SharedMemory(super::SharedMemoryHandle),
        /// In the memory of a GPU of the server's host.
        #[prost(message, tag="6")]
        CudaIpc(super::CudaIpcHandle),
    }
}
/// Channels of a raw pixel, in memory order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PixelFormat {
    /// Not a format. Refused.
    Unspecified = 0,
    /// One channel: grey.
    Gray8 = 1,
    /// Two channels: grey, alpha (not premultiplied).
    GrayAlpha8 = 2,
    /// Three channels: red, green, blue.
    Rgb8 = 3,
    /// Four channels: red, green, blue, alpha (not premultiplied).
    Rgba8 = 4,
}
impl PixelFormat {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            PixelFormat::Unspecified => "PIXEL_FORMAT_UNSPECIFIED",
            PixelFormat::Gray8 => "PIXEL_FORMAT_GRAY8",
            PixelFormat::GrayAlpha8 => "PIXEL_FORMAT_GRAY_ALPHA8",
            PixelFormat::Rgb8 => "PIXEL_FORMAT_RGB8",
            PixelFormat::Rgba8 => "PIXEL_FORMAT_RGBA8",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PIXEL_FORMAT_UNSPECIFIED" => Some(Self::Unspecified),
            "PIXEL_FORMAT_GRAY8" => Some(Self::Gray8),
            "PIXEL_FORMAT_GRAY_ALPHA8" => Some(Self::GrayAlpha8),
            "PIXEL_FORMAT_RGB8" => Some(Self::Rgb8),
            "PIXEL_FORMAT_RGBA8" => Some(Self::Rgba8),
            _ => None,
        }
    }
}
/// Opens a stream of images that the server's CPU turns into features.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCpuConfig {
    /// The processor.
    #[prost(message, optional, tag="1")]
    pub processor: ::core::option::Option<ProcessorConfig>,
    /// What comes back, and how.
    #[prost(message, optional, tag="2")]
    pub output: ::core::option::Option<OutputConfig>,
}
/// One image.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCpuItem {
    /// Chosen by the client: positive, and larger than every id before it on the stream.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// Free text; comes back with the item's end.
    #[prost(string, tag="2")]
    pub label: ::prost::alloc::string::String,
    /// The image.
    #[prost(message, optional, tag="3")]
    pub image: ::core::option::Option<ImageSource>,
    /// W3C trace context of this item.
    #[prost(string, tag="4")]
    pub traceparent: ::prost::alloc::string::String,
    /// SHA-256 that the image's bytes must have, checked before they are decoded: 32 bytes, or none.
    #[prost(bytes="bytes", tag="5")]
    pub expected_sha256: ::prost::bytes::Bytes,
}
/// Features of one item.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCpuFeatures {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// Where the bytes are: chunks in several messages, or one handle.
    #[prost(oneof="deferred_cpu_features::Location", tags="2, 3")]
    pub location: ::core::option::Option<deferred_cpu_features::Location>,
}
/// Nested message and enum types in `DeferredCpuFeatures`.
pub mod deferred_cpu_features {
    /// Where the bytes are: chunks in several messages, or one handle.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Location {
        /// In this message.
        #[prost(message, tag="2")]
        Chunk(super::FeatureChunk),
        /// In shared memory.
        #[prost(message, tag="3")]
        SharedMemory(super::SharedMemoryHandle),
    }
}
/// The good end of an item.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCpuCompletion {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// The item's label, as sent.
    #[prost(string, tag="2")]
    pub label: ::prost::alloc::string::String,
    /// From what and by what the features were made.
    #[prost(message, optional, tag="3")]
    pub provenance: ::core::option::Option<Provenance>,
    /// Where the time went.
    #[prost(message, optional, tag="4")]
    pub timings: ::core::option::Option<ItemTimings>,
    /// Whether the features were made for this item.
    #[prost(enumeration="CacheOutcome", tag="5")]
    pub cache: i32,
}
/// Opens a stream of images that the server's GPU turns into features.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCudaConfig {
    /// The processor.
    #[prost(message, optional, tag="1")]
    pub processor: ::core::option::Option<ProcessorConfig>,
    /// What comes back, and how.
    #[prost(message, optional, tag="2")]
    pub output: ::core::option::Option<OutputConfig>,
    /// The GPU, by its UUID as `GetCapabilities` lists it. Empty: the server's choice.
    #[prost(string, tag="3")]
    pub device_uuid: ::prost::alloc::string::String,
}
/// One image.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCudaItem {
    /// Chosen by the client: positive, and larger than every id before it on the stream.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// Free text; comes back with the item's end.
    #[prost(string, tag="2")]
    pub label: ::prost::alloc::string::String,
    /// The image.
    #[prost(message, optional, tag="3")]
    pub image: ::core::option::Option<ImageSource>,
    /// W3C trace context of this item.
    #[prost(string, tag="4")]
    pub traceparent: ::prost::alloc::string::String,
    /// SHA-256 that the image's bytes must have, checked before they are decoded: 32 bytes, or none.
    #[prost(bytes="bytes", tag="5")]
    pub expected_sha256: ::prost::bytes::Bytes,
}
/// Features of one item.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCudaFeatures {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// Where the bytes are: chunks in several messages, or one handle.
    #[prost(oneof="deferred_cuda_features::Location", tags="2, 3, 4")]
    pub location: ::core::option::Option<deferred_cuda_features::Location>,
}
/// Nested message and enum types in `DeferredCudaFeatures`.
pub mod deferred_cuda_features {
    /// Where the bytes are: chunks in several messages, or one handle.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Location {
        /// In this message.
        #[prost(message, tag="2")]
        Chunk(super::FeatureChunk),
        /// In shared memory.
        #[prost(message, tag="3")]
        SharedMemory(super::SharedMemoryHandle),
        /// In the memory of the GPU.
        #[prost(message, tag="4")]
        CudaIpc(super::CudaIpcHandle),
    }
}
/// The good end of an item.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeferredCudaCompletion {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// The item's label, as sent.
    #[prost(string, tag="2")]
    pub label: ::prost::alloc::string::String,
    /// From what and by what the features were made.
    #[prost(message, optional, tag="3")]
    pub provenance: ::core::option::Option<Provenance>,
    /// Where the time went.
    #[prost(message, optional, tag="4")]
    pub timings: ::core::option::Option<ItemTimings>,
    /// Whether the features were made for this item.
    #[prost(enumeration="CacheOutcome", tag="5")]
    pub cache: i32,
}
/// Opens a stream of finished features.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LocalConfig {
    /// The processor that made the features; they are checked against its plan.
    #[prost(message, optional, tag="1")]
    pub processor: ::core::option::Option<ProcessorConfig>,
    /// What comes back, and how. The server converts to its element type.
    #[prost(message, optional, tag="2")]
    pub output: ::core::option::Option<OutputConfig>,
}
/// Announces the finished features of one image. Their bytes follow in `LocalItemFeatures`.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LocalItem {
    /// Chosen by the client: positive, and larger than every id before it on the stream.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// Free text; comes back with the item's end.
    #[prost(string, tag="2")]
    pub label: ::prost::alloc::string::String,
    /// Size of the image that the features were made of, after the config's orientation policy was applied.
    #[prost(message, optional, tag="3")]
    pub original_size: ::core::option::Option<Size>,
    /// The grid that the client computed. Must be the plan's; all zero where that has none.
    #[prost(message, optional, tag="4")]
    pub grid_thw: ::core::option::Option<GridThw>,
    /// The token count that the client computed. Must be the plan's.
    #[prost(uint32, tag="5")]
    pub token_count: u32,
    /// The tensor that follows. Its shape must be the plan's; its element type may be another than the stream's.
    #[prost(message, optional, tag="6")]
    pub features: ::core::option::Option<TensorSpec>,
    /// W3C trace context of this item.
    #[prost(string, tag="7")]
    pub traceparent: ::prost::alloc::string::String,
    /// SHA-256 of the source image, if the client wants it in the provenance: 32 bytes, or none.
    #[prost(bytes="bytes", tag="8")]
    pub content_sha256: ::prost::bytes::Bytes,
    /// The tiles that the client computed, for families that have them. If it is there, it must be the plan's.
    #[prost(message, optional, tag="9")]
    pub tile_grid: ::core::option::Option<TileGrid>,
}
/// Bytes of the features of an item that was announced before.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LocalItemFeatures {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// Where the bytes are: chunks in several messages, or one handle.
    #[prost(oneof="local_item_features::Location", tags="2, 3, 4")]
    pub location: ::core::option::Option<local_item_features::Location>,
}
/// Nested message and enum types in `LocalItemFeatures`.
pub mod local_item_features {
    /// Where the bytes are: chunks in several messages, or one handle.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Location {
        /// In this message.
        #[prost(message, tag="2")]
        Chunk(super::FeatureChunk),
        /// In shared memory.
        #[prost(message, tag="3")]
        SharedMemory(super::SharedMemoryHandle),
        /// In the memory of a GPU.
        #[prost(message, tag="4")]
        CudaIpc(super::CudaIpcHandle),
    }
}
/// Features that were checked and converted, on their way back.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LocalFeatures {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// Where the bytes are: chunks in several messages, or one handle.
    #[prost(oneof="local_features::Location", tags="2, 3")]
    pub location: ::core::option::Option<local_features::Location>,
}
/// Nested message and enum types in `LocalFeatures`.
pub mod local_features {
    /// Where the bytes are: chunks in several messages, or one handle.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Location {
        /// In this message.
        #[prost(message, tag="2")]
        Chunk(super::FeatureChunk),
        /// In shared memory.
        #[prost(message, tag="3")]
        SharedMemory(super::SharedMemoryHandle),
    }
}
/// The good end of an item.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LocalCompletion {
    /// The item.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// The item's label, as sent.
    #[prost(string, tag="2")]
    pub label: ::prost::alloc::string::String,
    /// From what and by what the features were made.
    #[prost(message, optional, tag="3")]
    pub provenance: ::core::option::Option<Provenance>,
    /// Where the time went.
    #[prost(message, optional, tag="4")]
    pub timings: ::core::option::Option<ItemTimings>,
}
/// A message of the client on a stream of finished features.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamLocalRequest {
    /// Exactly one.
    #[prost(oneof="stream_local_request::Payload", tags="31, 32, 33, 34, 35")]
    pub payload: ::core::option::Option<stream_local_request::Payload>,
}
/// Nested message and enum types in `StreamLocalRequest`.
pub mod stream_local_request {
    /// Exactly one.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Payload {
        /// First message.
        #[prost(message, tag="31")]
        Config(super::LocalConfig),
        /// Announces an item.
        #[prost(message, tag="32")]
        Item(super::LocalItem),
        /// Bytes of an announced item.
        #[prost(message, tag="33")]
        ItemFeatures(super::LocalItemFeatures),
        /// Gives leased memory back.
        #[prost(message, tag="34")]
        Release(super::Release),
        /// Drops one item.
        #[prost(message, tag="35")]
        Cancellation(super::Cancellation),
    }
}
/// A message of the server on a stream of finished features.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamLocalResponse {
    /// Exactly one. A client skips what it does not know: new ones never end an item or a stream.
    #[prost(oneof="stream_local_response::Payload", tags="1, 2, 3, 4, 5, 6, 37, 38, 39")]
    pub payload: ::core::option::Option<stream_local_response::Payload>,
}
/// Nested message and enum types in `StreamLocalResponse`.
pub mod stream_local_response {
    /// Exactly one. A client skips what it does not know: new ones never end an item or a stream.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Payload {
        /// First message: the stream is open.
        #[prost(message, tag="1")]
        Ready(super::Ready),
        /// What will come of an item.
        #[prost(message, tag="2")]
        Plan(super::ItemPlan),
        /// The bad end of an item.
        #[prost(message, tag="3")]
        Error(super::ItemError),
        /// Last message of a good stream.
        #[prost(message, tag="4")]
        Summary(super::Summary),
        /// Asks the client to move.
        #[prost(message, tag="5")]
        Goaway(super::Goaway),
        /// The stream is broken.
        #[prost(message, tag="6")]
        Failure(super::StreamFailure),
        /// Features of an item.
        #[prost(message, tag="37")]
        Features(super::LocalFeatures),
        /// The good end of an item.
        #[prost(message, tag="38")]
        Completion(super::LocalCompletion),
        /// Several of these messages in one, only where the config asks for it.
        #[prost(message, tag="39")]
        Group(super::StreamLocalResponseGroup),
    }
}
/// Messages of the server that were there at the same time, in their order: read them as if each had come alone.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamLocalResponseGroup {
    /// Two or more, none of them a group. They carry at most 1 MiB of features together.
    #[prost(message, repeated, tag="1")]
    pub responses: ::prost::alloc::vec::Vec<StreamLocalResponse>,
}
/// A message of the client on a stream for the server's GPU.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamDeferredCudaRequest {
    /// Exactly one.
    #[prost(oneof="stream_deferred_cuda_request::Payload", tags="11, 12, 14, 15")]
    pub payload: ::core::option::Option<stream_deferred_cuda_request::Payload>,
}
/// Nested message and enum types in `StreamDeferredCudaRequest`.
pub mod stream_deferred_cuda_request {
    /// Exactly one.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Payload {
        /// First message.
        #[prost(message, tag="11")]
        Config(super::DeferredCudaConfig),
        /// An image.
        #[prost(message, tag="12")]
        Item(super::DeferredCudaItem),
        /// Gives leased memory back.
        #[prost(message, tag="14")]
        Release(super::Release),
        /// Drops one item.
        #[prost(message, tag="15")]
        Cancellation(super::Cancellation),
    }
}
/// A message of the server on a stream for its GPU.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamDeferredCudaResponse {
    /// Exactly one. A client skips what it does not know: new ones never end an item or a stream.
    #[prost(oneof="stream_deferred_cuda_response::Payload", tags="1, 2, 3, 4, 5, 6, 17, 18, 19")]
    pub payload: ::core::option::Option<stream_deferred_cuda_response::Payload>,
}
/// Nested message and enum types in `StreamDeferredCudaResponse`.
pub mod stream_deferred_cuda_response {
    /// Exactly one. A client skips what it does not know: new ones never end an item or a stream.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Payload {
        /// First message: the stream is open.
        #[prost(message, tag="1")]
        Ready(super::Ready),
        /// What will come of an item.
        #[prost(message, tag="2")]
        Plan(super::ItemPlan),
        /// The bad end of an item.
        #[prost(message, tag="3")]
        Error(super::ItemError),
        /// Last message of a good stream.
        #[prost(message, tag="4")]
        Summary(super::Summary),
        /// Asks the client to move.
        #[prost(message, tag="5")]
        Goaway(super::Goaway),
        /// The stream is broken.
        #[prost(message, tag="6")]
        Failure(super::StreamFailure),
        /// Features of an item.
        #[prost(message, tag="17")]
        Features(super::DeferredCudaFeatures),
        /// The good end of an item.
        #[prost(message, tag="18")]
        Completion(super::DeferredCudaCompletion),
        /// Several of these messages in one, only where the config asks for it.
        #[prost(message, tag="19")]
        Group(super::StreamDeferredCudaResponseGroup),
    }
}
/// Messages of the server that were there at the same time, in their order: read them as if each had come alone.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamDeferredCudaResponseGroup {
    /// Two or more, none of them a group. They carry at most 1 MiB of features together.
    #[prost(message, repeated, tag="1")]
    pub responses: ::prost::alloc::vec::Vec<StreamDeferredCudaResponse>,
}
/// A message of the client on a stream for the server's CPU.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamDeferredCpuRequest {
    /// Exactly one.
    #[prost(oneof="stream_deferred_cpu_request::Payload", tags="21, 22, 24, 25")]
    pub payload: ::core::option::Option<stream_deferred_cpu_request::Payload>,
}
/// Nested message and enum types in `StreamDeferredCpuRequest`.
pub mod stream_deferred_cpu_request {
    /// Exactly one.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Payload {
        /// First message.
        #[prost(message, tag="21")]
        Config(super::DeferredCpuConfig),
        /// An image.
        #[prost(message, tag="22")]
        Item(super::DeferredCpuItem),
        /// Gives leased memory back.
        #[prost(message, tag="24")]
        Release(super::Release),
        /// Drops one item.
        #[prost(message, tag="25")]
        Cancellation(super::Cancellation),
    }
}
/// A message of the server on a stream for its CPU.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamDeferredCpuResponse {
    /// Exactly one. A client skips what it does not know: new ones never end an item or a stream.
    #[prost(oneof="stream_deferred_cpu_response::Payload", tags="1, 2, 3, 4, 5, 6, 27, 28, 29")]
    pub payload: ::core::option::Option<stream_deferred_cpu_response::Payload>,
}
/// Nested message and enum types in `StreamDeferredCpuResponse`.
pub mod stream_deferred_cpu_response {
    /// Exactly one. A client skips what it does not know: new ones never end an item or a stream.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Payload {
        /// First message: the stream is open.
        #[prost(message, tag="1")]
        Ready(super::Ready),
        /// What will come of an item.
        #[prost(message, tag="2")]
        Plan(super::ItemPlan),
        /// The bad end of an item.
        #[prost(message, tag="3")]
        Error(super::ItemError),
        /// Last message of a good stream.
        #[prost(message, tag="4")]
        Summary(super::Summary),
        /// Asks the client to move.
        #[prost(message, tag="5")]
        Goaway(super::Goaway),
        /// The stream is broken.
        #[prost(message, tag="6")]
        Failure(super::StreamFailure),
        /// Features of an item.
        #[prost(message, tag="27")]
        Features(super::DeferredCpuFeatures),
        /// The good end of an item.
        #[prost(message, tag="28")]
        Completion(super::DeferredCpuCompletion),
        /// Several of these messages in one, only where the config asks for it.
        #[prost(message, tag="29")]
        Group(super::StreamDeferredCpuResponseGroup),
    }
}
/// Messages of the server that were there at the same time, in their order: read them as if each had come alone.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamDeferredCpuResponseGroup {
    /// Two or more, none of them a group. They carry at most 1 MiB of features together.
    #[prost(message, repeated, tag="1")]
    pub responses: ::prost::alloc::vec::Vec<StreamDeferredCpuResponse>,
}
/// Sizes to plan.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlanRequest {
    /// The processor.
    #[prost(message, optional, tag="1")]
    pub processor: ::core::option::Option<ProcessorConfig>,
    /// The images' sizes.
    #[prost(message, repeated, tag="2")]
    pub images: ::prost::alloc::vec::Vec<SizedImage>,
    /// Encoder ranks to share the images out to. Absent: no ranks are assigned.
    #[prost(uint32, optional, tag="3")]
    pub encoder_rank_count: ::core::option::Option<u32>,
    /// Element type of the tensors in the plans. Absent: plans without tensors.
    #[prost(enumeration="DataType", optional, tag="4")]
    pub data_type: ::core::option::Option<i32>,
}
/// Plans, each under the id of its image, in the order of the request.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlanResponse {
    /// One for each image of the request.
    #[prost(message, repeated, tag="1")]
    pub images: ::prost::alloc::vec::Vec<PlannedImage>,
    /// What each rank was given: one for each rank, where ranks were asked for.
    #[prost(message, repeated, tag="2")]
    pub encoder_ranks: ::prost::alloc::vec::Vec<EncoderRankLoad>,
    /// The config that holds, typed and complete.
    #[prost(message, optional, tag="3")]
    pub processor: ::core::option::Option<ProcessorConfig>,
    /// SHA-256 of the config's canonical form.
    #[prost(bytes="bytes", tag="4")]
    pub config_sha256: ::prost::bytes::Bytes,
    /// What the server ignored in the config.
    #[prost(message, repeated, tag="5")]
    pub warnings: ::prost::alloc::vec::Vec<FieldViolation>,
}
/// Asks for what a server can do.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetCapabilitiesRequest {
}
/// What a server can do.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetCapabilitiesResponse {
    /// Release of the contract that the server was built with: "1.0.0".
    #[prost(string, tag="1")]
    pub contract_version: ::prost::alloc::string::String,
    /// The server's release.
    #[prost(string, tag="2")]
    pub server_version: ::prost::alloc::string::String,
    /// Every path, and why one is missing.
    #[prost(message, repeated, tag="3")]
    pub paths: ::prost::alloc::vec::Vec<PathCapability>,
    /// Devices that features can be made on.
    #[prost(message, repeated, tag="4")]
    pub devices: ::prost::alloc::vec::Vec<Device>,
    /// Configs that the server has under names.
    #[prost(message, repeated, tag="5")]
    pub presets: ::prost::alloc::vec::Vec<Preset>,
    /// Element types of features.
    #[prost(enumeration="DataType", repeated, tag="6")]
    pub data_types: ::prost::alloc::vec::Vec<i32>,
    /// Every transport, and why one is missing.
    #[prost(message, repeated, tag="7")]
    pub transports: ::prost::alloc::vec::Vec<TransportCapability>,
    /// What a stream takes.
    #[prost(message, optional, tag="8")]
    pub limits: ::core::option::Option<StreamLimits>,
    /// Image formats that are read, by Pillow's names: "JPEG", "PNG".
    #[prost(string, repeated, tag="9")]
    pub image_formats: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Raw pixel formats that are read.
    #[prost(enumeration="PixelFormat", repeated, tag="10")]
    pub pixel_formats: ::prost::alloc::vec::Vec<i32>,
    /// Resize arithmetics that are honoured.
    #[prost(enumeration="ResampleKernel", repeated, tag="11")]
    pub resample_kernels: ::prost::alloc::vec::Vec<i32>,
    /// The release of Pillow that decodes images.
    #[prost(string, tag="12")]
    pub pillow_version: ::prost::alloc::string::String,
    /// The resize arithmetic that this Pillow has itself.
    #[prost(enumeration="ResampleKernel", tag="13")]
    pub pillow_resample_kernel: i32,
}
/// An image by its size.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SizedImage {
    /// Chosen by the client: positive, and no other image of the request has it.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// The size, after the config's orientation policy was applied.
    #[prost(message, optional, tag="2")]
    pub size: ::core::option::Option<Size>,
}
/// The plan of one image.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlannedImage {
    /// The image.
    #[prost(int32, tag="1")]
    pub id: i32,
    /// The encoder rank that owns the image. Absent where no ranks were asked for, or without a plan.
    #[prost(uint32, optional, tag="4")]
    pub encoder_rank: ::core::option::Option<u32>,
    /// Its plan, or why it has none.
    #[prost(oneof="planned_image::Outcome", tags="2, 3")]
    pub outcome: ::core::option::Option<planned_image::Outcome>,
}
/// Nested message and enum types in `PlannedImage`.
pub mod planned_image {
    /// Its plan, or why it has none.
    #[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Outcome {
        /// Geometry and token count.
        #[prost(message, tag="2")]
        Plan(super::ImagePlan),
        /// Why no plan can be made.
        #[prost(message, tag="3")]
        Error(super::ItemError),
    }
}
/// What one encoder rank was given.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct EncoderRankLoad {
    /// The rank, counted from 0.
    #[prost(uint32, tag="1")]
    pub rank: u32,
    /// Images it owns.
    #[prost(uint32, tag="2")]
    pub image_count: u32,
    /// Patches of those images; for families without them, tiles or images.
    #[prost(uint64, tag="3")]
    pub patch_count: u64,
}
/// Whether a path can be used.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PathCapability {
    /// The path.
    #[prost(enumeration="PreprocessingPath", tag="1")]
    pub path: i32,
    /// It can be used.
    #[prost(bool, tag="2")]
    pub available: bool,
    /// Why it cannot, in words. Empty where it can.
    #[prost(string, tag="3")]
    pub unavailable_reason: ::prost::alloc::string::String,
}
/// Whether a transport can be used.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TransportCapability {
    /// The transport, by the name of its arm in `OutputConfig.transport`: "inline".
    #[prost(string, tag="1")]
    pub name: ::prost::alloc::string::String,
    /// It can be used.
    #[prost(bool, tag="2")]
    pub available: bool,
    /// Why it cannot, in words. Empty where it can.
    #[prost(string, tag="3")]
    pub unavailable_reason: ::prost::alloc::string::String,
}
/// A device that features can be made on.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Device {
    /// "cpu", or the GPU's UUID as its driver prints it.
    #[prost(string, tag="1")]
    pub id: ::prost::alloc::string::String,
    /// Its name.
    #[prost(string, tag="2")]
    pub name: ::prost::alloc::string::String,
    /// Paths that can use it.
    #[prost(enumeration="PreprocessingPath", repeated, tag="3")]
    pub paths: ::prost::alloc::vec::Vec<i32>,
    /// Bytes of its memory; 0 for the CPU.
    #[prost(uint64, tag="4")]
    pub memory_bytes: u64,
}
/// A config that a server has under a name.
#[allow(clippy::derive_partial_eq_without_eq)]
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Preset {
    /// The name.
    #[prost(string, tag="1")]
    pub name: ::prost::alloc::string::String,
    /// The config, typed and complete.
    #[prost(message, optional, tag="2")]
    pub processor: ::core::option::Option<ProcessorConfig>,
    /// SHA-256 of the config's canonical form.
    #[prost(bytes="bytes", tag="3")]
    pub config_sha256: ::prost::bytes::Bytes,
}
