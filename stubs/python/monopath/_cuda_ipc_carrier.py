"""Features of one stream in the memory of the GPU that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import numpy as np

from monopath._carriers import Carrier, Features, MemoryHandle
from monopath._client_segments import unavailable
from monopath._enums import DataType, data_type_number
from monopath._errors import ProtocolError, StreamBroken
from monopath.cuda_memory import CudaError, HandleError
from monopath.v1 import config_pb2, location_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from monopath._leases import Lease
    from monopath._records import FeatureArray, ImagePlan
    from monopath.cuda_memory import ClientCudaMemory
    from monopath.v1 import event_pb2

__all__ = ["CudaIpcCarrier"]

_ADVICE = (
    "Client and server have to run on one host, in one PID namespace (containers: --pid and --ipc), and see the same "
    'GPU; without that use transport="shared_memory" or "inline"'
)


class _Owner:
    """Lives as long as a tensor or any view of it."""

    __slots__ = ("__weakref__",)


class CudaIpcCarrier(Carrier):
    """Opens what the server exports. Features that come in messages, of a server without room, are put on the GPU."""

    def __init__(self, memory: Callable[[], ClientCudaMemory]) -> None:
        """`memory` gives the client's, or raises CudaError where this process cannot use a GPU."""
        self._open_memory = memory
        self._memory: ClientCudaMemory | None = None
        self._device_uuid = ""

    def output(self, output: config_pb2.OutputConfig) -> config_pb2.OutputConfig:
        try:
            self._memory = self._open_memory()
            fields = self._memory.transport_fields()
        except CudaError as error:
            raise unavailable(f"Expected a GPU that this process can use, got none: {error}. {_ADVICE}") from error
        asked = config_pb2.OutputConfig()
        asked.CopyFrom(output)
        asked.cuda_ipc.boot_id = fields.boot_id
        asked.cuda_ipc.pid_namespace = fields.pid_namespace
        asked.cuda_ipc.device_uuids.extend(fields.device_uuids)
        return asked

    def check(self, ready: event_pb2.Ready) -> None:
        assert self._memory is not None
        try:
            self._memory.check_offer(ready.cuda_ipc)
        except HandleError as error:
            raise ProtocolError(f"Expected ready with GPU memory to try, got none that makes sense: {error}") from error
        except CudaError as error:
            raise unavailable(f"Expected the server's GPU memory, got none: {error}. {_ADVICE}") from error
        self._device_uuid = ready.cuda_ipc.probe.device_uuid

    def features(self, handle: MemoryHandle, plan: ImagePlan, lease: Lease) -> Features:
        assert self._memory is not None
        if not isinstance(handle, location_pb2.CudaIpcHandle):
            raise ProtocolError("Expected features inline or in the memory of a GPU, got them in shared memory")
        owner = _Owner()
        try:
            tensor, close = self._memory.open(
                handle, data_type_number(DataType(plan.data_type or "")), plan.shape, owner
            )
        except HandleError as error:
            raise ProtocolError(f"Expected a handle that can be opened, got one that cannot: {error}") from error
        except CudaError as error:
            raise _out_of_device(error) from error
        lease.ends_with(owner, close)
        return Features(tensor=tensor, lease=lease)

    def inline_features(self, array: FeatureArray) -> Features:
        assert self._memory is not None
        data_type = data_type_number(DataType(array.dtype.name))
        try:
            tensor = self._memory.upload(
                array.reshape(-1).view(np.uint8).data, data_type, array.shape, self._device_uuid
            )
        except CudaError as error:
            raise _out_of_device(error) from error
        return Features(tensor=tensor)


def _out_of_device(error: CudaError) -> StreamBroken:
    return StreamBroken(grpc.StatusCode.RESOURCE_EXHAUSTED, f"Expected the GPU to take an item's features: {error}")
