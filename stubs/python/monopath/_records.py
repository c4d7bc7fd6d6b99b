"""What a server says about streams and items, as frozen records, and their making from the contract's messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from monopath._enums import DataType, enum_word, item_error_reason, member_or_word
from monopath._errors import FieldViolation, ItemError, ProtocolError
from monopath._paths import PreprocessingPath
from monopath.v1 import config_pb2, event_pb2, path_pb2, tensor_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monopath.v1 import error_pb2, geometry_pb2

__all__ = [
    "Crop",
    "FeatureArray",
    "GridThw",
    "ImagePlan",
    "ItemTimings",
    "Padding",
    "Provenance",
    "Ready",
    "Size",
    "StreamLimits",
    "Summary",
    "TileGrid",
    "data_type_word",
    "image_plan",
    "item_error",
    "item_timings",
    "numpy_data_type",
    "path_word",
    "provenance",
    "ready",
    "resample_kernel_word",
    "stream_limits",
    "summary",
    "violations",
]

FeatureArray: TypeAlias = "npt.NDArray[np.generic]"
"""A numpy array of features; bfloat16 ones have the element type `ml_dtypes.bfloat16`."""

_NUMPY_DATA_TYPES: dict[str, np.dtype[np.generic]] = {
    DataType.UINT8: np.dtype(np.uint8),
    DataType.FLOAT32: np.dtype("<f4"),
    DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    DataType.FLOAT16: np.dtype("<f2"),
}


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height of an image, in pixels."""

    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True)
class Padding:
    """Zero pixels added to an image, at its right and bottom only."""

    right_px: int
    bottom_px: int


@dataclass(frozen=True, slots=True)
class GridThw:
    """A patch grid, in patches (not merged tokens): frames, patches per column, patches per line."""

    t: int
    h: int
    w: int


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Tiles of one size, line by line; where there is a thumbnail, it is one more row of features, and the last."""

    columns: int
    rows: int
    has_thumbnail: bool
    tile_size_px: int


@dataclass(frozen=True, slots=True)
class Crop:
    """What is used of a resized image. Where offsets are negative, or it is larger than the image, there are zeros."""

    left_px: int
    top_px: int
    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """Everything that follows from an image's size and the processor config alone."""

    original_size: Size
    """Size the plan was made from, after the config's orientation policy was applied."""
    resized_size: Size
    padding: Padding
    grid_thw: GridThw | None
    """None for a family whose rows of features are no patches of a grid."""
    token_count: int
    """Tokens that the encoder's output will have for this image; 0 where the config does not say how many."""
    data_type: str | None
    """A `DataType`, or the number of an unknown one as text. None where no element type was asked for."""
    shape: tuple[int, ...]
    """Rows, channels, height and width of a row's pixels; frames behind the channels. Empty where no element type was
    asked for."""
    size_bytes: int
    """Bytes of the whole tensor."""
    tile_grid: TileGrid | None = None
    """For a family whose rows of features are tiles."""
    fixed_size: Size | None = None
    """For a family that gives all images one size, in one row of features."""
    crop: Crop | None = None
    """What is used of the resized image. None: all of it."""

    @property
    def patch_grid(self) -> GridThw:
        """`grid_thw`, for who takes nothing else. Raises ValueError for a family that has none."""
        if self.grid_thw is None:
            kind = "tiles" if self.tile_grid is not None else "images of one size"
            raise ValueError(f"Expected a plan with a patch grid, got one of {kind}")
        return self.grid_thw


@dataclass(frozen=True, slots=True)
class Provenance:
    """From what and by what features were made; enough to know whether two results must be equal."""

    path: str
    config_sha256: bytes
    content_sha256: bytes
    """SHA-256 of the image's bytes as sent. For LOCAL what the client declared, if it did."""
    resample_kernel: str
    """A `ResampleKernel`; "unspecified" for LOCAL."""
    route: str
    """Where the pixels were resized and converted: "client", "host", "host_pillow", "device"."""
    pillow_version: str
    server_version: str


@dataclass(frozen=True, slots=True)
class ItemTimings:
    """Time that an item spent in the server."""

    planning_seconds: float
    queued_seconds: float
    decoding_seconds: float
    transforming_seconds: float


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What a server takes."""

    max_unfinished_items: int
    max_unfinished_bytes: int
    max_image_bytes: int
    max_image_side_px: int
    max_image_pixels: int
    max_feature_bytes: int
    max_request_bytes: int
    chunk_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """The stream is open: the config that holds and what the server takes."""

    path: str
    processor: config_pb2.ProcessorConfig
    """The config that holds, typed and complete, whatever form it was given in."""
    config_sha256: bytes
    """SHA-256 of the config's canonical form. Equal digests give equal features."""
    warnings: tuple[FieldViolation, ...]
    """What the server ignored in the config."""
    limits: StreamLimits
    normalize_table: npt.NDArray[np.float32] | None
    """Value of each channel and pixel value, float32 [3, 256]: finishes UINT8 features. None for other types."""
    device: str
    server_version: str
    lease_timeout_seconds: float | None = None
    """How long the server holds memory for features that are not released; they stay readable after that. None where
    nothing is leased."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a stream came to."""

    accepted_count: int
    completed_count: int
    failed_count: int
    cancelled_count: int
    received_bytes: int
    """Bytes of images or features that the server received, however they came."""
    sent_bytes: int
    """Bytes of features that it sent, however they went."""
    fallback_count: int = 0
    """Items whose features came inline because the server had no shared memory left."""

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.accepted_count + other.accepted_count,
            self.completed_count + other.completed_count,
            self.failed_count + other.failed_count,
            self.cancelled_count + other.cancelled_count,
            self.received_bytes + other.received_bytes,
            self.sent_bytes + other.sent_bytes,
            self.fallback_count + other.fallback_count,
        )


def path_word(number: int) -> str:
    """Return a `PreprocessingPath`, or the number as text."""
    word = enum_word(path_pb2.PreprocessingPath.DESCRIPTOR, number, "PREPROCESSING_PATH_")
    return member_or_word(PreprocessingPath, word)


def data_type_word(number: int) -> str:
    """Return a `DataType`, or the number as text."""
    word = enum_word(tensor_pb2.DataType.DESCRIPTOR, number, "DATA_TYPE_").lower()
    return member_or_word(DataType, word)


def resample_kernel_word(number: int) -> str:
    """Return a `ResampleKernel`, "unspecified", or the number as text."""
    return enum_word(config_pb2.ResampleKernel.DESCRIPTOR, number, "RESAMPLE_KERNEL_").lower()


def numpy_data_type(word: str | None) -> np.dtype[np.generic]:
    """Return numpy's element type of a `DataType`, or raise ProtocolError for one that is none."""
    data_type = None if word is None else _NUMPY_DATA_TYPES.get(word)
    if data_type is None:
        raise ProtocolError(f"Expected a tensor of a known element type, got {word or 'none'}")
    return data_type


def image_plan(message: geometry_pb2.ImagePlan) -> ImagePlan:
    """Read a plan."""
    has_tensor = message.HasField("features")
    grid, tiles, crop = message.grid_thw, message.tile_grid, message.crop
    return ImagePlan(
        original_size=Size(message.original_size.width_px, message.original_size.height_px),
        resized_size=Size(message.resized_size.width_px, message.resized_size.height_px),
        padding=Padding(message.padding.right_px, message.padding.bottom_px),
        # A grid of nothing says that rows are something else, be it known to this release or not.
        grid_thw=GridThw(grid.t, grid.h, grid.w) if grid.t else None,
        token_count=message.token_count,
        data_type=data_type_word(message.features.data_type) if has_tensor else None,
        shape=tuple(message.features.shape),
        size_bytes=message.features.size_bytes,
        tile_grid=TileGrid(tiles.columns, tiles.rows, tiles.has_thumbnail, tiles.tile_size_px)
        if message.HasField("tile_grid")
        else None,
        fixed_size=Size(message.fixed_size.width_px, message.fixed_size.height_px)
        if message.HasField("fixed_size")
        else None,
        crop=Crop(crop.left_px, crop.top_px, crop.width_px, crop.height_px) if message.HasField("crop") else None,
    )


def provenance(message: event_pb2.Provenance) -> Provenance:
    """Read a provenance."""
    return Provenance(
        path=path_word(message.path),
        config_sha256=message.config_sha256,
        content_sha256=message.content_sha256,
        resample_kernel=resample_kernel_word(message.resample_kernel),
        route=enum_word(event_pb2.Route.DESCRIPTOR, message.route, "ROUTE_").lower(),
        pillow_version=message.pillow_version,
        server_version=message.server_version,
    )


def item_timings(message: event_pb2.ItemTimings) -> ItemTimings:
    """Read timings."""
    return ItemTimings(
        planning_seconds=message.planning.ToNanoseconds() / 1e9,
        queued_seconds=message.queued.ToNanoseconds() / 1e9,
        decoding_seconds=message.decoding.ToNanoseconds() / 1e9,
        transforming_seconds=message.transforming.ToNanoseconds() / 1e9,
    )


def violations(messages: Iterable[error_pb2.FieldViolation]) -> tuple[FieldViolation, ...]:
    """Read wrong or ignored fields."""
    return tuple(FieldViolation(message.field, message.description) for message in messages)


def item_error(message: error_pb2.ItemError, *, item_id: int, label: str = "") -> ItemError:
    """Read why an item failed, under the id and label that this side knows it by."""
    return ItemError(
        item_error_reason(message.reason),
        message.message,
        field=message.field,
        item_id=item_id,
        label=label,
        retry_after_seconds=message.retry_after.ToNanoseconds() / 1e9 if message.HasField("retry_after") else None,
    )


def stream_limits(message: event_pb2.StreamLimits) -> StreamLimits:
    """Read limits."""
    return StreamLimits(
        max_unfinished_items=message.max_unfinished_items,
        max_unfinished_bytes=message.max_unfinished_bytes,
        max_image_bytes=message.max_image_bytes,
        max_image_side_px=message.max_image_side_px,
        max_image_pixels=message.max_image_pixels,
        max_feature_bytes=message.max_feature_bytes,
        max_request_bytes=message.max_request_bytes,
        chunk_bytes=message.chunk_bytes,
    )


def summary(message: event_pb2.Summary) -> Summary:
    """Read a summary."""
    return Summary(
        accepted_count=message.accepted_count,
        completed_count=message.completed_count,
        failed_count=message.failed_count,
        cancelled_count=message.cancelled_count,
        received_bytes=message.received_bytes,
        sent_bytes=message.sent_bytes,
        fallback_count=message.fallback_count,
    )


def ready(message: event_pb2.Ready) -> Ready:
    """Read the stream's opening, or raise ProtocolError where its limits or its table cannot be used."""
    if not message.HasField("limits"):
        raise ProtocolError("Expected ready with limits, got none")
    return Ready(
        path=path_word(message.path),
        processor=message.processor,
        config_sha256=message.config_sha256,
        warnings=violations(message.warnings),
        limits=stream_limits(message.limits),
        normalize_table=_normalize_table(message.normalize_table) if message.HasField("normalize_table") else None,
        device=message.device,
        server_version=message.server_version,
        lease_timeout_seconds=_lease_timeout_seconds(message),
    )


def _lease_timeout_seconds(message: event_pb2.Ready) -> float | None:
    for offer in (message.shared_memory, message.cuda_ipc):
        if offer.HasField("lease_timeout"):
            return offer.lease_timeout.ToNanoseconds() / 1e9
    return None


def _normalize_table(message: tensor_pb2.Tensor) -> npt.NDArray[np.float32]:
    shape = tuple(message.spec.shape)
    if message.spec.data_type != tensor_pb2.DATA_TYPE_FLOAT32 or shape != (3, 256):
        raise ProtocolError(
            f"Expected a normalize table of float32 [3, 256], got one of {data_type_word(message.spec.data_type)} "
            f"{list(shape)}"
        )
    if len(message.data) != 3 * 256 * 4:
        raise ProtocolError(f"Expected a normalize table of {3 * 256 * 4} bytes, got {len(message.data)}")
    return np.frombuffer(message.data, dtype="<f4").reshape(shape)
