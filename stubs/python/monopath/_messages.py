"""One adapter a path: how its requests are made, and what its responses say. No I/O.

Responses of the three paths have the same arms under other numbers; they are read into one closed union.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import numpy as np

from monopath._carriers import MemoryHandle
from monopath._enums import cache_outcome, data_type_number
from monopath._images import ImageInput, LocalFeatures, RawImage, as_item, image_source, load, tensor_array
from monopath._local_tokens import token_count
from monopath._paths import DeferredCpu, DeferredCuda, Local, PathT, PreprocessingPath
from monopath._records import GridThw
from monopath._upload import Upload
from monopath.v1 import (
    deferred_cpu_pb2,
    deferred_cuda_pb2,
    error_pb2,
    event_pb2,
    geometry_pb2,
    image_pb2,
    local_pb2,
    location_pb2,
    service_pb2,
    tensor_pb2,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from monopath._records import FeatureArray, Ready
    from monopath.v1 import config_pb2

__all__ = [
    "DEFERRED_CPU",
    "DEFERRED_CUDA",
    "LOCAL",
    "AnyRequest",
    "AnyResponse",
    "Chunk",
    "Completion",
    "Handle",
    "Outgoing",
    "PathAdapter",
    "ServerMessage",
    "read_response",
]

AnyRequest: TypeAlias = (
    service_pb2.StreamLocalRequest | service_pb2.StreamDeferredCudaRequest | service_pb2.StreamDeferredCpuRequest
)
AnyResponse: TypeAlias = (
    service_pb2.StreamLocalResponse | service_pb2.StreamDeferredCudaResponse | service_pb2.StreamDeferredCpuResponse
)
InputT = TypeVar("InputT")

_CHUNK_BYTES = 1 << 20
_ENVELOPE_BYTES = 256
_HANDLE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of an item's features."""

    id: int
    offset_bytes: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Handle:
    """Where an item's features are, in memory that this client may see."""

    id: int
    location: MemoryHandle | None
    """None: in a place that this release does not know."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The good end of an item."""

    id: int
    provenance: event_pb2.Provenance
    timings: event_pb2.ItemTimings
    cache: str | None
    """A `CacheOutcome`; None where the server says nothing of it."""


ServerMessage: TypeAlias = (
    event_pb2.Ready
    | event_pb2.ItemPlan
    | Chunk
    | Handle
    | Completion
    | error_pb2.ItemError
    | event_pb2.Summary
    | event_pb2.Goaway
    | error_pb2.StreamFailure
)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An item that is ready to go, whatever its path."""

    label: str
    payload_bytes: int
    """Bytes of the image or of the features."""
    largest_request_bytes: int
    """No request of the item is larger than this, where the bytes go inline."""
    largest_upload_request_bytes: int
    """The same where they go through shared memory."""
    requests: Callable[[int, Upload | None], Iterable[AnyRequest]]
    """Makes the item's messages, given its id, and room for its bytes unless they go inline.

    With room they are made while they are sent, since handles have to be in that order.
    """


@dataclass(frozen=True, slots=True)
class PathAdapter(Generic[PathT, InputT]):
    """What the rest of the client has to know about one path."""

    path: PreprocessingPath
    config: Callable[[config_pb2.ProcessorConfig, config_pb2.OutputConfig, str], AnyRequest]
    load: Callable[[InputT], InputT]
    """Checks the type of what the caller gave, and reads its file, if it is one. May block."""
    outgoing: Callable[[InputT, Ready], Outgoing]
    cancellation: Callable[[int], AnyRequest]
    release: Callable[[int], AnyRequest]


def read_response(response: AnyResponse) -> ServerMessage | None:
    """Return what a response says. None for one that this release does not know, which is to be skipped."""
    match response.WhichOneof("payload"):
        case "ready":
            return response.ready
        case "plan":
            return response.plan
        case "features":
            return _read_features(response.features)
        case "completion":
            completion = response.completion
            cache = None if isinstance(completion, local_pb2.LocalCompletion) else cache_outcome(completion.cache)
            return Completion(completion.id, completion.provenance, completion.timings, cache)
        case "error":
            return response.error
        case "summary":
            return response.summary
        case "goaway":
            return response.goaway
        case "failure":
            return response.failure
        case "group" | None:
            return None


def _read_features(
    features: local_pb2.LocalFeatures | deferred_cuda_pb2.DeferredCudaFeatures | deferred_cpu_pb2.DeferredCpuFeatures,
) -> Chunk | Handle:
    match features.WhichOneof("location"):
        case "chunk":
            return Chunk(features.id, features.chunk.offset_bytes, features.chunk.data)
        case "shared_memory":
            return Handle(features.id, features.shared_memory)
        case "cuda_ipc":
            assert isinstance(features, deferred_cuda_pb2.DeferredCudaFeatures)
            return Handle(features.id, features.cuda_ipc)
        case None:
            return Handle(features.id, None)


def _load_image(image: ImageInput) -> ImageInput:
    return load(as_item(image))


def _load_features(features: LocalFeatures) -> LocalFeatures:
    if not isinstance(features, LocalFeatures):
        raise TypeError(f"Expected LocalFeatures, got {type(features).__name__}")
    return features


@dataclass(frozen=True, slots=True)
class _ImageParts:
    """The fields that the items of both deferred paths have."""

    label: str
    image: bytes | RawImage
    traceparent: str
    expected_sha256: bytes

    def outgoing(self, request: Callable[[int, image_pb2.ImageSource], AnyRequest]) -> Outgoing:
        payload_bytes = len(self.image) if isinstance(self.image, bytes) else self.image.pixels.size
        text_bytes = len(self.label.encode()) + len(self.traceparent.encode())

        def requests(item_id: int, upload: Upload | None) -> Iterable[AnyRequest]:
            return (request(item_id, image_source(self.image)),) if upload is None else uploaded(item_id, upload)

        def uploaded(item_id: int, upload: Upload) -> Iterator[AnyRequest]:
            data = np.frombuffer(self.image, np.uint8) if isinstance(self.image, bytes) else self.image.pixels
            handle = upload.write(data)
            if handle is not None:
                yield request(item_id, image_source(self.image, handle))

        return Outgoing(
            label=self.label,
            payload_bytes=payload_bytes,
            largest_request_bytes=payload_bytes + text_bytes + _ENVELOPE_BYTES,
            largest_upload_request_bytes=text_bytes + _HANDLE_BYTES + _ENVELOPE_BYTES,
            requests=requests,
        )


def _image_parts(image: ImageInput) -> _ImageParts:
    item = load(as_item(image))
    assert isinstance(item.image, bytes | RawImage)
    return _ImageParts(item.label, item.image, item.traceparent, item.expected_sha256)


def _deferred_cpu_outgoing(image: ImageInput, _ready: Ready) -> Outgoing:
    parts = _image_parts(image)
    return parts.outgoing(
        lambda item_id, source: service_pb2.StreamDeferredCpuRequest(
            item=deferred_cpu_pb2.DeferredCpuItem(
                id=item_id,
                label=parts.label,
                image=source,
                traceparent=parts.traceparent,
                expected_sha256=parts.expected_sha256,
            )
        )
    )


def _deferred_cuda_outgoing(image: ImageInput, _ready: Ready) -> Outgoing:
    parts = _image_parts(image)
    return parts.outgoing(
        lambda item_id, source: service_pb2.StreamDeferredCudaRequest(
            item=deferred_cuda_pb2.DeferredCudaItem(
                id=item_id,
                label=parts.label,
                image=source,
                traceparent=parts.traceparent,
                expected_sha256=parts.expected_sha256,
            )
        )
    )


def _local_outgoing(features: LocalFeatures, ready: Ready) -> Outgoing:
    array = tensor_array(features.array)
    chunk_bytes = _CHUNK_BYTES
    if 0 < ready.limits.max_request_bytes < _CHUNK_BYTES + _ENVELOPE_BYTES:
        chunk_bytes = max(1, ready.limits.max_request_bytes - _ENVELOPE_BYTES)

    # Made here, so that what it refuses is raised before the item has an id.
    item = _local_item(features, array, ready)

    def requests(item_id: int, upload: Upload | None) -> Iterator[AnyRequest]:
        data = array.reshape(-1).view(np.uint8)
        handle = None if upload is None else upload.write(data)
        if upload is not None and handle is None:
            return
        request = service_pb2.StreamLocalRequest(item=item)
        # Of this message alone: the thread of a stream that was lost may still be at the item's last attempt.
        request.item.id = item_id
        yield request
        if handle is not None:
            by_handle = local_pb2.LocalItemFeatures(id=item_id, shared_memory=handle)
            yield service_pb2.StreamLocalRequest(item_features=by_handle)
            return
        for offset_bytes in range(0, data.size, chunk_bytes):
            chunk = location_pb2.FeatureChunk(
                offset_bytes=offset_bytes, data=data[offset_bytes : offset_bytes + chunk_bytes].tobytes()
            )
            yield service_pb2.StreamLocalRequest(item_features=local_pb2.LocalItemFeatures(id=item_id, chunk=chunk))

    text_bytes = len(features.label.encode()) + len(features.traceparent.encode())
    return Outgoing(
        label=features.label,
        payload_bytes=array.nbytes,
        largest_request_bytes=max(min(array.nbytes, chunk_bytes), text_bytes) + _ENVELOPE_BYTES,
        largest_upload_request_bytes=text_bytes + _HANDLE_BYTES + _ENVELOPE_BYTES,
        requests=requests,
    )


def _local_item(features: LocalFeatures, array: FeatureArray, ready: Ready) -> local_pb2.LocalItem:
    # A plan without a grid is met by an empty one: the contract wants the field.
    grid, tiles = features.grid_thw or GridThw(0, 0, 0), features.tile_grid
    return local_pb2.LocalItem(
        label=features.label,
        original_size=geometry_pb2.Size(
            width_px=features.original_size.width_px, height_px=features.original_size.height_px
        ),
        grid_thw=geometry_pb2.GridThw(t=grid.t, h=grid.h, w=grid.w),
        token_count=token_count(features, array.shape, ready.processor),
        tile_grid=None
        if tiles is None
        else geometry_pb2.TileGrid(
            columns=tiles.columns,
            rows=tiles.rows,
            has_thumbnail=tiles.has_thumbnail,
            tile_size_px=tiles.tile_size_px,
        ),
        features=tensor_pb2.TensorSpec(
            data_type=data_type_number(array.dtype.name),  # type: ignore[arg-type]  # tensor_array checked it
            shape=array.shape,
            size_bytes=array.nbytes,
        ),
        traceparent=features.traceparent,
        content_sha256=features.content_sha256,
    )


LOCAL: PathAdapter[Local, LocalFeatures] = PathAdapter(
    path=PreprocessingPath.LOCAL,
    config=lambda processor, output, _device_uuid: service_pb2.StreamLocalRequest(
        config=local_pb2.LocalConfig(processor=processor, output=output)
    ),
    load=_load_features,
    outgoing=_local_outgoing,
    cancellation=lambda item_id: service_pb2.StreamLocalRequest(cancellation=event_pb2.Cancellation(id=item_id)),
    release=lambda item_id: service_pb2.StreamLocalRequest(release=event_pb2.Release(id=item_id)),
)

DEFERRED_CUDA: PathAdapter[DeferredCuda, ImageInput] = PathAdapter(
    path=PreprocessingPath.DEFERRED_CUDA,
    config=lambda processor, output, device_uuid: service_pb2.StreamDeferredCudaRequest(
        config=deferred_cuda_pb2.DeferredCudaConfig(processor=processor, output=output, device_uuid=device_uuid)
    ),
    load=_load_image,
    outgoing=_deferred_cuda_outgoing,
    cancellation=lambda item_id: service_pb2.StreamDeferredCudaRequest(cancellation=event_pb2.Cancellation(id=item_id)),
    release=lambda item_id: service_pb2.StreamDeferredCudaRequest(release=event_pb2.Release(id=item_id)),
)

DEFERRED_CPU: PathAdapter[DeferredCpu, ImageInput] = PathAdapter(
    path=PreprocessingPath.DEFERRED_CPU,
    config=lambda processor, output, _device_uuid: service_pb2.StreamDeferredCpuRequest(
        config=deferred_cpu_pb2.DeferredCpuConfig(processor=processor, output=output)
    ),
    load=_load_image,
    outgoing=_deferred_cpu_outgoing,
    cancellation=lambda item_id: service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=item_id)),
    release=lambda item_id: service_pb2.StreamDeferredCpuRequest(release=event_pb2.Release(id=item_id)),
)
