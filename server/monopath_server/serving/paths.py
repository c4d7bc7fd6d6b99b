"""The three paths as the session sees them: which messages they answer with. All else is shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from google.protobuf.message import Message

from monopath.v1 import deferred_cpu_pb2, deferred_cuda_pb2, event_pb2, local_pb2, location_pb2, path_pb2, service_pb2

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

    def shared(self, arm: SharedArm, message: Message) -> ResponseT:
        """A response with a message that all paths share."""
        fields: dict[str, Any] = {arm: message}
        return self._response(**fields)

    def features(self, item_id: int, offset_bytes: int, data: bytes) -> ResponseT:
        """A chunk of an item's features."""
        chunk = location_pb2.FeatureChunk(offset_bytes=offset_bytes, data=data)
        return self._response(features=self._features(id=item_id, chunk=chunk))

    def completion(
        self, item_id: int, label: str, provenance: event_pb2.Provenance, timings: event_pb2.ItemTimings
    ) -> ResponseT:
        """The good end of an item."""
        return self._response(
            completion=self._completion(id=item_id, label=label, provenance=provenance, timings=timings)
        )


LOCAL = PathMessages(
    path_pb2.PREPROCESSING_PATH_LOCAL,
    service_pb2.StreamLocalResponse,
    local_pb2.LocalFeatures,
    local_pb2.LocalCompletion,
)
DEFERRED_CUDA = PathMessages(
    path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA,
    service_pb2.StreamDeferredCudaResponse,
    deferred_cuda_pb2.DeferredCudaFeatures,
    deferred_cuda_pb2.DeferredCudaCompletion,
)
DEFERRED_CPU = PathMessages(
    path_pb2.PREPROCESSING_PATH_DEFERRED_CPU,
    service_pb2.StreamDeferredCpuResponse,
    deferred_cpu_pb2.DeferredCpuFeatures,
    deferred_cpu_pb2.DeferredCpuCompletion,
)
