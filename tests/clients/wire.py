"""Messages that scripted servers send, short to write. Features are float32 [1, 3, 2, 2] unless said otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from monopath.v1 import config_pb2, error_pb2, event_pb2, geometry_pb2, location_pb2, path_pb2, service_pb2, tensor_pb2

CONFIG_SHA256 = b"c" * 32
SHAPE = (1, 3, 2, 2)
DOMAIN = "monopath.v1"

ELEMENT_BYTES = {
    tensor_pb2.DATA_TYPE_UINT8: 1,
    tensor_pb2.DATA_TYPE_FLOAT32: 4,
    tensor_pb2.DATA_TYPE_BFLOAT16: 2,
    tensor_pb2.DATA_TYPE_FLOAT16: 2,
}

LIMITS = event_pb2.StreamLimits(
    max_unfinished_items=4,
    max_unfinished_bytes=1 << 20,
    max_image_bytes=1 << 20,
    max_image_side_px=4096,
    max_image_pixels=1 << 24,
    max_feature_bytes=1 << 26,
    max_request_bytes=(1 << 20) + (1 << 16),
    chunk_bytes=1 << 20,
)


@dataclass(frozen=True)
class Wire:
    """Makes the responses of one path."""

    path: path_pb2.PreprocessingPath.ValueType
    response: Any
    """The response class; its fields have the same names on every path."""

    def ready(self, **fields: Any) -> Any:
        defaults: dict[str, Any] = {
            "path": self.path,
            "config_sha256": CONFIG_SHA256,
            "limits": LIMITS,
            "device": "cpu",
            "server_version": "9.9",
        }
        return self.response(ready=event_pb2.Ready(**{**defaults, **fields}))

    def plan(
        self,
        item_id: int,
        *,
        shape: tuple[int, ...] = SHAPE,
        data_type: Any = tensor_pb2.DATA_TYPE_FLOAT32,
        size_bytes: int | None = None,
        path: Any = None,
    ) -> Any:
        size = math.prod(shape) * ELEMENT_BYTES.get(data_type, 1) if size_bytes is None else size_bytes
        plan = geometry_pb2.ImagePlan(
            original_size=geometry_pb2.Size(width_px=3, height_px=2),
            resized_size=geometry_pb2.Size(width_px=2, height_px=2),
            padding=geometry_pb2.Padding(right_px=1, bottom_px=0),
            grid_thw=geometry_pb2.GridThw(t=1, h=1, w=max(0, shape[0])),
            token_count=max(0, shape[0]),
            features=tensor_pb2.TensorSpec(data_type=data_type, shape=shape, size_bytes=size),
        )
        return self.response(plan=event_pb2.ItemPlan(id=item_id, path=self.path if path is None else path, plan=plan))

    def chunk(self, item_id: int, data: bytes, offset_bytes: int = 0) -> Any:
        response = self.response()
        response.features.id = item_id
        response.features.chunk.CopyFrom(location_pb2.FeatureChunk(offset_bytes=offset_bytes, data=data))
        return response

    def handle(self, item_id: int, handle: location_pb2.SharedMemoryHandle | location_pb2.CudaIpcHandle) -> Any:
        response = self.response()
        response.features.id = item_id
        if isinstance(handle, location_pb2.SharedMemoryHandle):
            response.features.shared_memory.CopyFrom(handle)
        else:
            response.features.cuda_ipc.CopyFrom(handle)
        return response

    def completion(self, item_id: int, label: str = "", *, cache: Any = None, **fields: Any) -> Any:
        defaults: dict[str, Any] = {
            "path": self.path,
            "config_sha256": CONFIG_SHA256,
            "resample_kernel": config_pb2.RESAMPLE_KERNEL_PILLOW_13,
            "route": event_pb2.ROUTE_HOST,
            "pillow_version": "13.0.0",
            "server_version": "9.9",
        }
        response = self.response()
        response.completion.id = item_id
        response.completion.label = label
        response.completion.provenance.CopyFrom(event_pb2.Provenance(**{**defaults, **fields}))
        if cache is not None:
            response.completion.cache = cache
        response.completion.timings.decoding.FromMilliseconds(250)
        return response

    def error(self, item_id: int, reason: Any = error_pb2.ITEM_ERROR_REASON_IMAGE_DAMAGED, **fields: Any) -> Any:
        return self.response(error=error_pb2.ItemError(id=item_id, reason=reason, **{"message": "damaged", **fields}))

    def summary(self, completed: int = 0, failed: int = 0, cancelled: int = 0, accepted: int | None = None) -> Any:
        return self.response(
            summary=event_pb2.Summary(
                accepted_count=completed + failed + cancelled if accepted is None else accepted,
                completed_count=completed,
                failed_count=failed,
                cancelled_count=cancelled,
            )
        )

    def goaway(self, reason: Any = event_pb2.GOAWAY_REASON_STREAM_AGE) -> Any:
        return self.response(goaway=event_pb2.Goaway(reason=reason))

    def failure(self, reason: Any, message: str = "broken", violations: Any = ()) -> Any:
        return self.response(failure=error_pb2.StreamFailure(reason=reason, message=message, violations=violations))

    def whole_item(self, item_id: int, label: str = "", *, first_value: float = 0.0) -> list[Any]:
        """Return plan, features and completion of an item whose values count up from `first_value`."""
        data = (np.arange(math.prod(SHAPE), dtype="<f4") + np.float32(first_value)).tobytes()
        return [self.plan(item_id), self.chunk(item_id, data), self.completion(item_id, label)]


CPU = Wire(path_pb2.PREPROCESSING_PATH_DEFERRED_CPU, service_pb2.StreamDeferredCpuResponse)
CUDA = Wire(path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA, service_pb2.StreamDeferredCudaResponse)
LOCAL = Wire(path_pb2.PREPROCESSING_PATH_LOCAL, service_pb2.StreamLocalResponse)


def details(code: int, message: str, *messages: Any) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata of a status with details."""
    status = status_pb2.Status(code=code, message=message)
    for detail in messages:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return (("grpc-status-details-bin", status.SerializeToString()),)


def error_info(reason: str, domain: str = DOMAIN) -> Any:
    """Return the detail that names a reason."""
    return error_details_pb2.ErrorInfo(reason=reason, domain=domain)
