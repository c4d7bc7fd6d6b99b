"""Client messages, read into plain values. One reader serves the three paths: their arms have the same names."""

from __future__ import annotations

from dataclasses import dataclass

from monopath.v1 import (
    deferred_cpu_pb2,
    deferred_cuda_pb2,
    event_pb2,
    geometry_pb2,
    image_pb2,
    local_pb2,
    location_pb2,
    service_pb2,
)
from monopath_server.delivery.uploads import SegmentBytes, Uploads
from monopath_server.engine.items import EncodedSource, ImageItem, PixelsSource
from monopath_server.engine.local import LocalItem
from monopath_server.faults import ConfigViolation, ItemFault, ItemReason, StreamFault, StreamReason
from monopath_server.processors.types import GridTHW, Size, TileGrid
from monopath_server.serving.enums import DATA_TYPES, PIXEL_FORMATS
from monopath_server.serving.rules import find_violations

__all__ = [
    "Config",
    "FeatureBytes",
    "ItemHeader",
    "Payload",
    "Request",
    "feature_bytes",
    "image_item",
    "local_item",
    "payload_of",
]

Request = service_pb2.StreamLocalRequest | service_pb2.StreamDeferredCudaRequest | service_pb2.StreamDeferredCpuRequest
Config = local_pb2.LocalConfig | deferred_cuda_pb2.DeferredCudaConfig | deferred_cpu_pb2.DeferredCpuConfig
ItemHeader = local_pb2.LocalItem | deferred_cuda_pb2.DeferredCudaItem | deferred_cpu_pb2.DeferredCpuItem
Payload = Config | ItemHeader | local_pb2.LocalItemFeatures | event_pb2.Release | event_pb2.Cancellation


@dataclass(frozen=True, slots=True)
class FeatureBytes:
    """Bytes of a local item's features."""

    offset_bytes: int
    data: bytes


def payload_of(request: Request) -> Payload:
    """The one message in a request.

    Raises:
        StreamFault: PAYLOAD_UNKNOWN where there is none that this path knows, such as a message of another path.
    """
    arm = request.WhichOneof("payload")
    if arm is None:
        path_name = type(request).__name__.removesuffix("Request")
        raise StreamFault(
            StreamReason.PAYLOAD_UNKNOWN,
            f"Expected a payload of {path_name}, got a message without one; was it made for another path?",
        )
    payload: Payload = getattr(request, arm)
    return payload


def image_item(
    message: deferred_cuda_pb2.DeferredCudaItem | deferred_cpu_pb2.DeferredCpuItem, uploads: Uploads | None
) -> tuple[ImageItem, SegmentBytes | None]:
    """An image to be turned into features; and where its bytes are, if they are not in the item.

    `uploads` is None for a stream that takes no handles.

    Raises:
        ItemFault: for every wrong field, naming it.
    """
    _check_rules(find_violations(message, ""))
    _check_sha256(message.expected_sha256, "expected_sha256")
    source, uploaded = _source(message.image, uploads)
    return ImageItem(message.id, message.label, source, message.expected_sha256), uploaded


def local_item(message: local_pb2.LocalItem) -> LocalItem:
    """An announcement of finished features.

    Raises:
        ItemFault: for every wrong field, naming it.
    """
    _check_rules(find_violations(message, ""))
    _check_sha256(message.content_sha256, "content_sha256")
    return LocalItem(
        id=message.id,
        label=message.label,
        original_size=Size(message.original_size.width_px, message.original_size.height_px),
        grid_thw=_grid_thw(message.grid_thw),
        tile_grid=_tile_grid(message.tile_grid) if message.HasField("tile_grid") else None,
        token_count=message.token_count,
        element_type=DATA_TYPES.to_inner(message.features.data_type),
        shape=tuple(message.features.shape),
        size_bytes=message.features.size_bytes,
        content_sha256=message.content_sha256,
    )


def _grid_thw(message: geometry_pb2.GridThw) -> GridTHW | None:
    """A grid without anything in it stands for none."""
    grid = GridTHW(message.t, message.h, message.w)
    return None if grid == GridTHW(0, 0, 0) else grid


def _tile_grid(message: geometry_pb2.TileGrid) -> TileGrid:
    return TileGrid(message.columns, message.rows, message.has_thumbnail, message.tile_size_px)


def feature_bytes(message: local_pb2.LocalItemFeatures, uploads: Uploads | None) -> FeatureBytes | SegmentBytes:
    """Bytes of an announced item, or where they are.

    Raises:
        ItemFault: where they are in a place that this server does not take them from, or are none.
    """
    match message.WhichOneof("location"):
        case "chunk":
            _check_rules(find_violations(message, ""))
            return FeatureBytes(message.chunk.offset_bytes, message.chunk.data)
        case "shared_memory":
            _check_rules(find_violations(message, ""))
            handle, field = message.shared_memory, "item_features.shared_memory"
            return _taken(uploads, field).take(field, *_handle_values(handle))
        case "cuda_ipc":
            raise _unsupported_location("item_features.cuda_ipc")
        case None:
            raise ItemFault(
                ItemReason.FIELD_INVALID,
                "Expected one of chunk, shared_memory, cuda_ipc, got none",
                field="item_features.location",
            )


def _source(
    image: image_pb2.ImageSource, uploads: Uploads | None
) -> tuple[EncodedSource | PixelsSource, SegmentBytes | None]:
    match image.WhichOneof("content"):
        case "encoded":
            data, uploaded = _bytes_of(image.encoded, "image.encoded", uploads)
            return EncodedSource(data), uploaded
        case "pixels":
            pixels = image.pixels
            data, uploaded = _bytes_of(pixels, "image.pixels", uploads)
            pixel_format = PIXEL_FORMATS.to_inner(pixels.format)
            return PixelsSource(data, pixels.width_px, pixels.height_px, pixel_format), uploaded
        case None:
            raise ItemFault(
                ItemReason.FIELD_INVALID, "Expected one of encoded, pixels, got none", field="image.content"
            )


def _bytes_of(
    message: image_pb2.EncodedImage | image_pb2.RawPixels, path: str, uploads: Uploads | None
) -> tuple[bytes, SegmentBytes | None]:
    location = message.WhichOneof("location")
    match location:
        case "data":
            return message.data, None
        case "shared_memory":
            field = f"{path}.shared_memory"
            return b"", _taken(uploads, field).take_image(field, *_handle_values(message.shared_memory))
        case "cuda_ipc":
            raise _unsupported_location(f"{path}.cuda_ipc")
        case None:
            raise ItemFault(ItemReason.FIELD_INVALID, "Expected a location, got none", field=f"{path}.location")


def _handle_values(handle: location_pb2.SharedMemoryHandle) -> tuple[str, int, int, int]:
    return handle.name, handle.offset_bytes, handle.length_bytes, handle.generation


def _taken(uploads: Uploads | None, path: str) -> Uploads:
    if uploads is None:
        raise _unsupported_location(path)
    return uploads


def _unsupported_location(path: str) -> ItemFault:
    return ItemFault(
        ItemReason.LOCATION_UNSUPPORTED,
        "Expected bytes in the message, got a memory handle, which this stream does not take",
        field=path,
    )


def _check_rules(violations: tuple[ConfigViolation, ...]) -> None:
    if violations:
        text = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise ItemFault(ItemReason.FIELD_INVALID, text, field=violations[0].field)


def _check_sha256(digest: bytes, path: str) -> None:
    if len(digest) not in (0, 32):
        raise ItemFault(ItemReason.FIELD_INVALID, f"Expected 32 bytes or none, got {len(digest)}", field=path)
