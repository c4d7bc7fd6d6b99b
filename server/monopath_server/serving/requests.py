"""Client messages, read into plain values. One reader serves the three paths: their arms have the same names."""

from __future__ import annotations

from dataclasses import dataclass

from monopath.v1 import (
    deferred_cpu_pb2,
    deferred_cuda_pb2,
    event_pb2,
    image_pb2,
    local_pb2,
    service_pb2,
)
from monopath_server.engine.items import EncodedSource, ImageItem, PixelsSource
from monopath_server.engine.local import LocalItem
from monopath_server.faults import ConfigViolation, ItemFault, ItemReason, StreamFault, StreamReason
from monopath_server.processors.types import GridTHW, Size
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


def image_item(message: deferred_cuda_pb2.DeferredCudaItem | deferred_cpu_pb2.DeferredCpuItem) -> ImageItem:
    """An image to be turned into features.

    Raises:
        ItemFault: for every wrong field, naming it.
    """
    _check_rules(find_violations(message, ""))
    _check_sha256(message.expected_sha256, "expected_sha256")
    return ImageItem(
        id=message.id,
        label=message.label,
        source=_source(message.image),
        expected_sha256=message.expected_sha256,
    )


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
        grid_thw=GridTHW(message.grid_thw.t, message.grid_thw.h, message.grid_thw.w),
        token_count=message.token_count,
        element_type=DATA_TYPES.to_inner(message.features.data_type),
        shape=tuple(message.features.shape),
        size_bytes=message.features.size_bytes,
        content_sha256=message.content_sha256,
    )


def feature_bytes(message: local_pb2.LocalItemFeatures) -> FeatureBytes:
    """Bytes of an announced item.

    Raises:
        ItemFault: where they are in a place that this server does not take them from, or are none.
    """
    match message.WhichOneof("location"):
        case "chunk":
            _check_rules(find_violations(message, ""))
            return FeatureBytes(message.chunk.offset_bytes, message.chunk.data)
        case "shared_memory" | "cuda_ipc" as arm:
            raise _unsupported_location(f"item_features.{arm}")
        case None:
            raise ItemFault(
                ItemReason.FIELD_INVALID,
                "Expected one of chunk, shared_memory, cuda_ipc, got none",
                field="item_features.location",
            )


def _source(image: image_pb2.ImageSource) -> EncodedSource | PixelsSource:
    match image.WhichOneof("content"):
        case "encoded":
            return EncodedSource(_inline(image.encoded.WhichOneof("location"), image.encoded, "image.encoded"))
        case "pixels":
            pixels = image.pixels
            return PixelsSource(
                data=_inline(pixels.WhichOneof("location"), pixels, "image.pixels"),
                width_px=pixels.width_px,
                height_px=pixels.height_px,
                format=PIXEL_FORMATS.to_inner(pixels.format),
            )
        case None:
            raise ItemFault(
                ItemReason.FIELD_INVALID, "Expected one of encoded, pixels, got none", field="image.content"
            )


def _inline(location: str | None, message: image_pb2.EncodedImage | image_pb2.RawPixels, path: str) -> bytes:
    if location == "data":
        return message.data
    if location is None:
        raise ItemFault(ItemReason.FIELD_INVALID, "Expected a location, got none", field=f"{path}.location")
    raise _unsupported_location(f"{path}.{location}")


def _unsupported_location(path: str) -> ItemFault:
    return ItemFault(
        ItemReason.LOCATION_UNSUPPORTED,
        "Expected bytes in the message: this server takes no memory handles",
        field=path,
    )


def _check_rules(violations: tuple[ConfigViolation, ...]) -> None:
    if violations:
        text = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise ItemFault(ItemReason.FIELD_INVALID, text, field=violations[0].field)


def _check_sha256(digest: bytes, path: str) -> None:
    if len(digest) not in (0, 32):
        raise ItemFault(ItemReason.FIELD_INVALID, f"Expected 32 bytes or none, got {len(digest)}", field=path)
