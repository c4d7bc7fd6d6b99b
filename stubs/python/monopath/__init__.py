"""Client of monopath: images to the features that a vision-language model's encoder reads, over gRPC.

    from pathlib import Path

    from monopath import Client

    with Client("localhost:50051") as client:
        with client.deferred_cpu(preset="kimi-k3", data_type="bfloat16") as stream:
            for result in stream.map([Path("a.jpg"), Path("b.png")]):
                print(result.id, result.plan.grid_thw, result.array.shape if result.ok else result.error)

`AsyncClient` is the same for asyncio. The contract's own messages are in `monopath.v1`.
"""

from __future__ import annotations

from monopath._access import Tls
from monopath._arguments import CallMetadata, PlanArguments, ProcessorArguments, StreamArguments
from monopath._async_client import AsyncClient
from monopath._async_fleet import AsyncFleet
from monopath._async_stream import AsyncStream
from monopath._capabilities import Availability, Capabilities, Device, Preset
from monopath._client import Client
from monopath._config import Config
from monopath._enums import (
    Alpha,
    CacheOutcome,
    DataType,
    ItemErrorReason,
    Orientation,
    PixelFormat,
    ResampleKernel,
    ResultOrder,
    StreamErrorReason,
    Transport,
)
from monopath._errors import (
    CallError,
    ConnectionFailed,
    CredentialsRefused,
    DeadlineExceeded,
    FieldViolation,
    ItemAttemptsExhausted,
    ItemError,
    MonopathError,
    ProtocolError,
    RequestRefused,
    StreamBroken,
    StreamClosed,
    StreamMoved,
    StreamRefused,
)
from monopath._fleet import Fleet
from monopath._images import Image, ImageInput, Item, LocalFeatures, RawImage
from monopath._messages import InputT
from monopath._paths import AnyPath, DeferredCpu, DeferredCuda, Local, PathT, PreprocessingPath
from monopath._planning import EncoderRankLoad, PlannedImage, PlanReply, SizeInput
from monopath._records import (
    Crop,
    FeatureArray,
    GridThw,
    ImagePlan,
    ItemTimings,
    Padding,
    Provenance,
    Ready,
    Size,
    StreamLimits,
    Summary,
    TileGrid,
)
from monopath._results import FeatureBatch, PlanEvent, Result, concatenate
from monopath._resume import Resume
from monopath._session import Event
from monopath._stream import Stream
from monopath.v1.config_pb2 import (
    FixedSizeConfig,
    GlmNextConfig,
    GlmVlConfig,
    InternVlConfig,
    KimiConfig,
    KimiVlConfig,
    ProcessorConfig,
    QwenVlConfig,
)

__all__ = [
    "Alpha",
    "AnyPath",
    "AsyncClient",
    "AsyncFleet",
    "AsyncStream",
    "Availability",
    "CacheOutcome",
    "CallError",
    "CallMetadata",
    "Capabilities",
    "Client",
    "Config",
    "ConnectionFailed",
    "CredentialsRefused",
    "Crop",
    "DataType",
    "DeadlineExceeded",
    "DeferredCpu",
    "DeferredCuda",
    "Device",
    "EncoderRankLoad",
    "Event",
    "FeatureArray",
    "FeatureBatch",
    "FieldViolation",
    "FixedSizeConfig",
    "Fleet",
    "GlmNextConfig",
    "GlmVlConfig",
    "GridThw",
    "Image",
    "ImageInput",
    "ImagePlan",
    "InputT",
    "InternVlConfig",
    "Item",
    "ItemAttemptsExhausted",
    "ItemError",
    "ItemErrorReason",
    "ItemTimings",
    "KimiConfig",
    "KimiVlConfig",
    "Local",
    "LocalFeatures",
    "MonopathError",
    "Orientation",
    "Padding",
    "PathT",
    "PixelFormat",
    "PlanArguments",
    "PlanEvent",
    "PlanReply",
    "PlannedImage",
    "PreprocessingPath",
    "Preset",
    "ProcessorArguments",
    "ProcessorConfig",
    "ProtocolError",
    "Provenance",
    "QwenVlConfig",
    "RawImage",
    "Ready",
    "RequestRefused",
    "ResampleKernel",
    "Result",
    "ResultOrder",
    "Resume",
    "Size",
    "SizeInput",
    "Stream",
    "StreamArguments",
    "StreamBroken",
    "StreamClosed",
    "StreamErrorReason",
    "StreamLimits",
    "StreamMoved",
    "StreamRefused",
    "Summary",
    "TileGrid",
    "Tls",
    "Transport",
    "concatenate",
]
