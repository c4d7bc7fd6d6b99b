"""The few calls of the CUDA driver that hand GPU memory from one process to another, and nothing else of it.

Client and server use the same ones. Torch's own allocator is never asked: the driver exports whole allocations only,
and those of torch hold other tensors too.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["CudaDriver", "CudaError", "LibCuda"]

HANDLE_BYTES = 64
OUT_OF_MEMORY = 2
NO_DEVICE = 100
EVENT_DISABLE_TIMING = 2
EVENT_INTERPROCESS = 4
LAZY_ENABLE_PEER_ACCESS = 1


class CudaError(Exception):
    """The driver refused something, or is not there."""

    def __init__(self, message: str, code: int = 0) -> None:
        """`code` is the driver's number, a CUresult; 0 where it was not the driver that refused."""
        super().__init__(message)
        self.code = code

    @property
    def is_out_of_memory(self) -> bool:
        """The device has no block of that size."""
        return self.code == OUT_OF_MEMORY


class CudaDriver(Protocol):
    """A driver. Devices are counted as torch counts them; pointers and events are addresses.

    Safe to use from every thread; whatever context a thread has stays its current one. Every call but `device_uuids`
    makes the process's context on the device, unless it is there, and raises `CudaError`.
    """

    def device_uuids(self) -> tuple[str, ...]:
        """The devices that this process sees, as nvidia-smi prints them: "GPU-xxxxxxxx-...". Makes no context."""

    def allocate(self, device: int, size_bytes: int) -> int:
        """Allocate a block of its own: its pointer is the base that `memory_handle` wants."""

    def free(self, device: int, pointer: int) -> None:
        """Free a block. Undefined where another process still has it open; may wait for the device."""

    def memory_handle(self, device: int, pointer: int) -> bytes:
        """What another process opens the block with."""

    def new_event(self, device: int) -> int:
        """Make an event that other processes can open."""

    def event_handle(self, device: int, event: int) -> bytes:
        """What another process opens the event with."""

    def record(self, device: int, event: int, stream: int) -> None:
        """Let the event be everything that is queued on a stream of the device now; 0 is the default stream."""

    def wait(self, device: int, event: int) -> None:
        """Block until what the event was last recorded for is done, without the GIL."""

    def destroy_event(self, device: int, event: int) -> None:
        """Let go of an event of this process, or of an opened one."""

    def open_memory(self, device: int, handle: bytes) -> int:
        """Map another process's block. A handle that is open must not be opened again."""

    def close_memory(self, device: int, pointer: int) -> None:
        """Unmap what `open_memory` gave."""

    def open_event(self, device: int, handle: bytes) -> int:
        """Open another process's event."""

    def synchronize(self, device: int) -> None:
        """Block until the device has done all that this process has queued, on whatever stream, without the GIL."""

    def copy_to_host(self, device: int, pointer: int, size_bytes: int) -> bytes:
        """Copy bytes, at once."""

    def copy_to_device(self, device: int, pointer: int, data: memoryview) -> None:
        """Copy bytes, and return when they are there."""

    def as_tensor(self, device: int, pointer: int, size_bytes: int, owner: object = None) -> torch.Tensor:
        """The memory as a uint8 tensor [size_bytes], without a copy. `owner` lives as long as it or any view of it."""

    def to_device(self, device: int, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a host's tensor in memory of this process on the device."""


class _Handle(ctypes.Structure):
    """CUipcMemHandle and CUipcEventHandle: opaque, and passed by value."""

    _fields_ = [("reserved", ctypes.c_ubyte * HANDLE_BYTES)]


_POINTER = ctypes.c_uint64
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDeviceGetUuid": (ctypes.POINTER(ctypes.c_ubyte * 16), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(ctypes.c_void_p),),
    "cuCtxSynchronize": (),
    "cuStreamSynchronize": (ctypes.c_void_p,),
    "cuMemAlloc_v2": (ctypes.POINTER(_POINTER), ctypes.c_size_t),
    "cuMemFree_v2": (_POINTER,),
    "cuMemcpyDtoH_v2": (ctypes.c_void_p, _POINTER, ctypes.c_size_t),
    "cuMemcpyHtoD_v2": (_POINTER, ctypes.c_void_p, ctypes.c_size_t),
    "cuEventCreate": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint),
    "cuEventRecord": (ctypes.c_void_p, ctypes.c_void_p),
    "cuEventSynchronize": (ctypes.c_void_p,),
    "cuEventDestroy_v2": (ctypes.c_void_p,),
    "cuIpcGetMemHandle": (ctypes.POINTER(_Handle), _POINTER),
    "cuIpcOpenMemHandle_v2": (ctypes.POINTER(_POINTER), _Handle, ctypes.c_uint),
    "cuIpcCloseMemHandle": (_POINTER,),
    "cuIpcGetEventHandle": (ctypes.POINTER(_Handle), ctypes.c_void_p),
    "cuIpcOpenEventHandle": (ctypes.POINTER(ctypes.c_void_p), _Handle),
}


class _DeviceMemory:
    """What torch takes memory from; the tensor's storage keeps it, and it keeps the owner."""

    __slots__ = ("__cuda_array_interface__", "owner")

    def __init__(self, pointer: int, size_bytes: int, owner: object) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "stream": None,
        }
        self.owner = owner


class LibCuda:
    """NVIDIA's driver, in the primary context of each device: the one that torch and the CUDA runtime use."""

    def __init__(self, library: Any = None) -> None:
        """Load libcuda and start it, which makes no context. `library` stands for it in tests.

        Raises:
            CudaError: there is no driver, or it is too old, or it refuses.
        """
        self._library = library if library is not None else _load()
        for name, argument_types in _PROTOTYPES.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise CudaError(f"Expected an NVIDIA driver that knows {name}, got an older one") from None
            function.restype = ctypes.c_int
            function.argtypes = argument_types
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._lock = threading.Lock()
        code = self._library.cuInit(0)
        self._has_devices = code != NO_DEVICE
        if self._has_devices:
            self._check("cuInit", code)

    def device_uuids(self) -> tuple[str, ...]:
        if not self._has_devices:
            return ()
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        uuids = []
        for index in range(count.value):
            identifier = (ctypes.c_ubyte * 16)()
            self._call("cuDeviceGetUuid", ctypes.byref(identifier), self._device(index))
            uuids.append(f"GPU-{uuid.UUID(bytes=bytes(identifier))}")
        return tuple(uuids)

    def allocate(self, device: int, size_bytes: int) -> int:
        pointer = _POINTER()
        with self._context(device):
            self._call("cuMemAlloc_v2", ctypes.byref(pointer), size_bytes)
        return pointer.value

    def free(self, device: int, pointer: int) -> None:
        with self._context(device):
            self._call("cuMemFree_v2", pointer)

    def memory_handle(self, device: int, pointer: int) -> bytes:
        handle = _Handle()
        with self._context(device):
            self._call("cuIpcGetMemHandle", ctypes.byref(handle), pointer)
        return bytes(handle)

    def new_event(self, device: int) -> int:
        event = ctypes.c_void_p()
        with self._context(device):
            self._call("cuEventCreate", ctypes.byref(event), EVENT_DISABLE_TIMING | EVENT_INTERPROCESS)
        return event.value or 0

    def event_handle(self, device: int, event: int) -> bytes:
        handle = _Handle()
        with self._context(device):
            self._call("cuIpcGetEventHandle", ctypes.byref(handle), event)
        return bytes(handle)

    def record(self, device: int, event: int, stream: int) -> None:
        with self._context(device):
            self._call("cuEventRecord", event, stream)

    def wait(self, device: int, event: int) -> None:
        with self._context(device):
            self._call("cuEventSynchronize", event)

    def destroy_event(self, device: int, event: int) -> None:
        with self._context(device):
            self._call("cuEventDestroy_v2", event)

    def open_memory(self, device: int, handle: bytes) -> int:
        pointer = _POINTER()
        with self._context(device):
            self._call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), _handle(handle), LAZY_ENABLE_PEER_ACCESS)
        return pointer.value

    def close_memory(self, device: int, pointer: int) -> None:
        with self._context(device):
            self._call("cuIpcCloseMemHandle", pointer)

    def open_event(self, device: int, handle: bytes) -> int:
        event = ctypes.c_void_p()
        with self._context(device):
            self._call("cuIpcOpenEventHandle", ctypes.byref(event), _handle(handle))
        return event.value or 0

    def synchronize(self, device: int) -> None:
        with self._context(device):
            self._call("cuCtxSynchronize")

    def copy_to_host(self, device: int, pointer: int, size_bytes: int) -> bytes:
        memory = ctypes.create_string_buffer(size_bytes)
        with self._context(device):
            self._call("cuMemcpyDtoH_v2", memory, pointer, size_bytes)
        return memory.raw

    def copy_to_device(self, device: int, pointer: int, data: memoryview) -> None:
        source = np.frombuffer(data, np.uint8)  # gives the address of memory that may not be written, too
        with self._context(device):
            self._call("cuMemcpyHtoD_v2", pointer, source.ctypes.data, source.nbytes)
            # When the call returns, the bytes may still be on their way from a buffer of the driver's.
            self._call("cuStreamSynchronize", None)

    def as_tensor(self, device: int, pointer: int, size_bytes: int, owner: object = None) -> torch.Tensor:
        import torch

        return torch.as_tensor(_DeviceMemory(pointer, size_bytes, owner), device=torch.device("cuda", device))

    def to_device(self, device: int, tensor: torch.Tensor) -> torch.Tensor:
        import torch

        return tensor.to(torch.device("cuda", device))

    def _device(self, index: int) -> int:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        return device.value

    @contextlib.contextmanager
    def _context(self, index: int) -> Iterator[None]:
        """Make the device's primary context the thread's current one, for the time of a block."""
        with self._lock:
            context = self._contexts.get(index)
            if context is None:
                context = ctypes.c_void_p()
                # Retained for good, as torch does: it goes with the process.
                self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device(index))
                self._contexts[index] = context
        self._call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, getattr(self._library, name)(*arguments))

    def _check(self, function: str, code: int) -> None:
        if code == 0:
            return
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        self._library.cuGetErrorString(code, ctypes.byref(text))
        words = [found.value.decode(errors="replace") for found in (name, text) if found.value]
        raise CudaError(f"{function} failed with {': '.join(words) or f'error {code}'}", code)


def _load() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise CudaError("Expected an NVIDIA driver, got none (libcuda.so.1 was not found)") from None


def _handle(data: bytes) -> _Handle:
    if len(data) != HANDLE_BYTES:
        raise CudaError(f"Expected a handle of {HANDLE_BYTES} bytes, got {len(data)}")
    return _Handle.from_buffer_copy(data)
