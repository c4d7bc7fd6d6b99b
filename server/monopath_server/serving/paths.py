"""The three paths as the session sees them: which messages they answer with. All else is shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar

from google.protobuf.message import Message

from monopath.v1 import deferred_cpu_pb2, deferred_cuda_pb2, event_pb2, local_pb2, location_pb2, path_pb2, service_pb2
from monopath_server.delivery.parts import Chunk, DevicePart, Part, SegmentPart
from monopath_server.serving.wire import ChunkWriter, GroupWriter

__all__ = ["DEFERRED_CPU", "DEFERRED_CUDA", "LOCAL", "PathMessages"]

ResponseT = TypeVar("ResponseT")
SharedArm = Literal["ready", "plan", "error", "summary", "goaway", "failure"]


@dataclass(frozen=True, slots=True)
class PathMessages(Generic[ResponseT]):
    """The message types of one path. Arms have the same names on every path; a contract test holds that."""

    path: path_pb2.PreprocessingPath.ValueType
    _response: Callable[..., ResponseT]
    _features: Callable[..., Message]
    _completion: Callable[..., Message]
    _chunks: ChunkWriter
    _groups: GroupWriter
    _has_cache: bool

    @property
    def name(self) -> str:
        """Name of the path, without the contract's prefix."""
        return path_pb2.PreprocessingPath.Name(self.path).removeprefix("PREPROCESSING_PATH_")

    @property
    def method(self) -> str:
        """Name of the path's method."""
        return self._response.__name__.removesuffix("Response")

    def shared(self, arm: SharedArm, message: Message) -> ResponseT:
        """A response with a message that all paths share."""
        fields: dict[str, Any] = {arm: message}
        return self._response(**fields)

    def features(self, item_id: int, part: Part) -> ResponseT | bytes:
        """A part of an item's features; of a chunk the serialised response."""
        match part:
            case Chunk(offset_bytes, data):
                return self._chunks.write(item_id, offset_bytes, data)
            case SegmentPart():
                segment = location_pb2.SharedMemoryHandle(**asdict(part))
                return self._response(features=self._features(id=item_id, shared_memory=segment))
            case DevicePart():
                memory = location_pb2.CudaIpcHandle(**asdict(part))
                return self._response(features=self._features(id=item_id, cuda_ipc=memory))

    def group(self, responses: Sequence[bytes]) -> bytes:
        """Serialised responses in one, serialised as well."""
        return self._groups.write(responses)

    def completion(
        self,
        item_id: int,
        label: str,
        provenance: event_pb2.Provenance,
        timings: event_pb2.ItemTimings,
        cache: event_pb2.CacheOutcome.ValueType,
    ) -> ResponseT:
        """The good end of an item."""
        fields: dict[str, Any] = {"cache": cache} if self._has_cache else {}
        return self._response(
            completion=self._completion(id=item_id, label=label, provenance=provenance, timings=timings, **fields)
        )


LOCAL = PathMessages(
    path_pb2.PREPROCESSING_PATH_LOCAL,
    service_pb2.StreamLocalResponse,
    local_pb2.LocalFeatures,
    local_pb2.LocalCompletion,
    ChunkWriter(service_pb2.StreamLocalResponse.DESCRIPTOR),
    GroupWriter(service_pb2.StreamLocalResponse.DESCRIPTOR),
    _has_cache=False,
)
DEFERRED_CUDA = PathMessages(
    path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA,
    service_pb2.StreamDeferredCudaResponse,
    deferred_cuda_pb2.DeferredCudaFeatures,
    deferred_cuda_pb2.DeferredCudaCompletion,
    ChunkWriter(service_pb2.StreamDeferredCudaResponse.DESCRIPTOR),
    GroupWriter(service_pb2.StreamDeferredCudaResponse.DESCRIPTOR),
    _has_cache=True,
)
DEFERRED_CPU = PathMessages(
    path_pb2.PREPROCESSING_PATH_DEFERRED_CPU,
    service_pb2.StreamDeferredCpuResponse,
    deferred_cpu_pb2.DeferredCpuFeatures,
    deferred_cpu_pb2.DeferredCpuCompletion,
    ChunkWriter(service_pb2.StreamDeferredCpuResponse.DESCRIPTOR),
    GroupWriter(service_pb2.StreamDeferredCpuResponse.DESCRIPTOR),
    _has_cache=True,
)
