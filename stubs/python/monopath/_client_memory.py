"""The memory that all streams of a client share, and what carries the bytes of each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from monopath._carriers import InlineCarrier, NewCarrier
from monopath._client_segments import ClientSegments
from monopath._enums import Transport
from monopath._shared_memory_carrier import SharedMemoryCarrier

if TYPE_CHECKING:
    from monopath.cuda_memory import ClientCudaMemory, CudaDriver

__all__ = ["ClientMemory"]


class ClientMemory:
    """Made with a client, and closed after its streams. Safe to use from every thread."""

    def __init__(self, shared_memory_directory: Path | None, cuda_driver: CudaDriver | None) -> None:
        """Touch nothing yet. None: the directory of POSIX shared memory, and NVIDIA's driver."""
        self._segments = ClientSegments(shared_memory_directory)
        self._cuda_driver = cuda_driver
        self._cuda: ClientCudaMemory | None = None
        self._lock = threading.Lock()

    def new_carrier(self, transport: Transport) -> NewCarrier:
        """Return what makes a carrier for each stream of this transport."""
        match transport:
            case Transport.INLINE:
                return InlineCarrier
            case Transport.SHARED_MEMORY:
                return lambda: SharedMemoryCarrier(self._segments)
            case Transport.CUDA_IPC:
                # Imported here: few have a GPU.
                from monopath._cuda_ipc_carrier import CudaIpcCarrier

                return lambda: CudaIpcCarrier(self._open_cuda)
            case _:
                assert_never(transport)

    def close(self) -> None:
        """Take this client's segments away, and close what it has given up on a GPU. Calling it again does nothing."""
        self._segments.close()
        with self._lock:
            if self._cuda is not None:
                self._cuda.close()

    def _open_cuda(self) -> ClientCudaMemory:
        from monopath.cuda_memory import ClientCudaMemory

        with self._lock:
            if self._cuda is None:
                self._cuda = ClientCudaMemory(self._cuda_driver)
            return self._cuda
