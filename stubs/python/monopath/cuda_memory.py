"""Features that stay in the memory of a GPU: what a client does with the handles that a server sends.

The rules, for clients in every language:

* CUDA leaves undefined what becomes of memory that its owner frees while another process has it open. So a client
  closes a handle first and sends the item's `Release` second, and before it closes, it waits for what it has queued on
  the GPU.
* A handle may be open once in a process. Handles that are equal share one mapping, which goes with its last user.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import importlib.util
import logging
import math
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from monopath.cuda_driver import CudaDriver, CudaError, LibCuda
from monopath.v1 import event_pb2, location_pb2, tensor_pb2

if TYPE_CHECKING:
    import torch

__all__ = [
    "ClientCudaMemory",
    "CloseRows",
    "CudaDriver",
    "CudaError",
    "CudaTransportFields",
    "HandleError",
    "ImportedMemory",
    "LibCuda",
    "boot_id",
    "pid_namespace",
]

logger = logging.getLogger(__name__)

_DTYPES = {
    tensor_pb2.DATA_TYPE_UINT8: ("uint8", 1),
    tensor_pb2.DATA_TYPE_FLOAT32: ("float32", 4),
    tensor_pb2.DATA_TYPE_BFLOAT16: ("bfloat16", 2),
    tensor_pb2.DATA_TYPE_FLOAT16: ("float16", 2),
}


class HandleError(ValueError):
    """A server sent a handle that makes no sense: the stream's rules are broken."""


@dataclass(frozen=True, slots=True)
class CudaTransportFields:
    """What a client says of itself in `CudaIpcTransport`."""

    boot_id: str
    pid_namespace: str
    device_uuids: tuple[str, ...]


def boot_id() -> str:
    """Which host this is, since its last start; empty where the system does not tell."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def pid_namespace() -> str:
    """The PID namespace of this process, such as "pid:[4026531836]"; empty where the system does not tell."""
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


class ImportedMemory:
    """Memory of other processes that is open here: each handle once, however many use it. Safe from every thread."""

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        self._open: dict[tuple[int, bytes], _Opened] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def acquire(self, device: int, handle: bytes) -> int:
        """The memory's pointer, for one more user. Raises `CudaError`."""
        with self._lock:
            opened = self._open.get((device, handle))
            if opened is None:
                opened = self._open[device, handle] = _Opened(self._driver.open_memory(device, handle))
            opened.user_count += 1
            return opened.pointer

    def release(self, device: int, handle: bytes) -> None:
        """One user less; the last one closes the memory. The device must be done with it. Raises `CudaError`."""
        with self._lock:
            opened = self._open[device, handle]
            opened.user_count -= 1
            if opened.user_count == 0:
                del self._open[device, handle]
                self._driver.close_memory(device, opened.pointer)


@dataclass(slots=True)
class _Opened:
    pointer: int
    user_count: int = 0


class CloseRows(Protocol):
    """Gives up a tensor that `ClientCudaMemory.open` made."""

    def __call__(self, then: Callable[[], object] | None = None) -> None:
        """Close the memory soon, and call `then` afterwards: send the item's `Release` from there.

        Returns at once, and takes no lock: a finalizer may call it, in whatever thread it runs. A thread of its own
        waits until the device has done what is queued, closes, and calls `then`. A second call does nothing, not even
        `then`. The tensor and all its views must not be used any more.
        """


class ClientCudaMemory:
    """All GPU memory of servers that one client has open. Safe to use from every thread."""

    def __init__(self, driver: CudaDriver | None = None) -> None:
        """`driver` is NVIDIA's where none is given; loading it makes no context. Raises `CudaError`."""
        self._driver = driver if driver is not None else LibCuda()
        self._device_indexes = {name: index for index, name in enumerate(self._driver.device_uuids())}
        self._imported = ImportedMemory(self._driver)
        self._closings: _Closings = queue.SimpleQueue()
        self._is_started = False
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._stop = weakref.finalize(self, self._closings.put, None)

    def transport_fields(self) -> CudaTransportFields:
        """What the config of a stream says of this process. Raises `CudaError` where no device is visible."""
        if not self._device_indexes:
            raise CudaError("Expected a CUDA device that is visible to this process, got none")
        return CudaTransportFields(boot_id(), pid_namespace(), tuple(self._device_indexes))

    def check_offer(self, offer: event_pb2.CudaIpcOffer) -> None:
        """Open the memory that a server offers in `ready`, and compare it with the nonce it told.

        Takes a while: it imports torch, and makes this process's context on the device. Not for an event loop.

        Raises:
            CudaError: torch is missing, or the memory cannot be opened, or it holds other bytes.
            HandleError: there is no probe, or it makes no sense.
        """
        if importlib.util.find_spec("torch") is None:
            raise CudaError("Expected torch, which features on a GPU are tensors of, got none installed")
        importlib.import_module("torch")
        probe = offer.probe
        if not offer.nonce or probe.length_bytes != len(offer.nonce):
            raise HandleError(
                f"Expected a probe as long as its nonce, got {probe.length_bytes} and {len(offer.nonce)} bytes"
            )
        device = self._device_of(probe)
        self._wait_for(device, probe.event_handle)
        pointer = self._imported.acquire(device, probe.memory_handle)
        try:
            found = self._driver.copy_to_host(device, pointer + probe.offset_bytes, probe.length_bytes)
        finally:
            self._imported.release(device, probe.memory_handle)
        if not hmac.compare_digest(found, offer.nonce):
            raise CudaError("Expected the server's nonce in its GPU memory, got other bytes")

    def open(
        self,
        handle: location_pb2.CudaIpcHandle,
        data_type: tensor_pb2.DataType.ValueType,
        shape: Sequence[int],
        owner: object = None,
    ) -> tuple[torch.Tensor, CloseRows]:
        """Open an item's features, without a copy. Returns when they are complete: any stream may read them.

        Args:
            handle: What the server sent.
            data_type: Type of the elements.
            shape: Shape of the tensor, of the plan.
            owner: Lives as long as the tensor or any view of it, so that a finalizer of it may call `close`.

        Returns:
            The tensor on the device, and what closes it.

        Raises:
            CudaError: the driver refuses.
            HandleError: the handle does not fit the shape, or names a device that is not visible here.
        """
        dtype_name, element_bytes = _DTYPES[data_type]
        if handle.length_bytes != math.prod(shape) * element_bytes:
            raise HandleError(
                f"Expected {math.prod(shape) * element_bytes} bytes behind the handle, got {handle.length_bytes}"
            )
        if handle.offset_bytes % element_bytes:
            raise HandleError(f"Expected an offset that is a multiple of {element_bytes}, got {handle.offset_bytes}")
        import torch

        device = self._device_of(handle)
        if handle.event_handle:
            self._wait_for(device, handle.event_handle)
        self._start_closer()
        pointer = self._imported.acquire(device, handle.memory_handle)
        try:
            raw = self._driver.as_tensor(device, pointer + handle.offset_bytes, handle.length_bytes, owner)
            tensor = raw.view(getattr(torch, dtype_name)).reshape(tuple(shape))
        except BaseException:
            self._imported.release(device, handle.memory_handle)
            raise
        return tensor, _Closing(self._closings, device, handle.memory_handle)

    def upload(
        self,
        data: memoryview,
        data_type: tensor_pb2.DataType.ValueType,
        shape: Sequence[int],
        device_uuid: str,
    ) -> torch.Tensor:
        """A tensor of this process on a device, for features that a full server sent in chunks.

        Raises:
            CudaError: the driver refuses.
            HandleError: the device is not visible here.
        """
        import torch

        device = self._device_index(device_uuid)
        host = torch.frombuffer(bytearray(data), dtype=getattr(torch, _DTYPES[data_type][0])).reshape(tuple(shape))
        return self._driver.to_device(device, host)

    def close(self) -> None:
        """Close what was given up, and open nothing more. What is in use stays open until it is given up."""
        self._stop()
        with self._lock:
            is_started = self._is_started
        if is_started:
            self._is_closed.wait()

    def _device_of(self, handle: location_pb2.CudaIpcHandle) -> int:
        return self._device_index(handle.device_uuid)

    def _device_index(self, device_uuid: str) -> int:
        index = self._device_indexes.get(device_uuid)
        if index is None:
            raise HandleError(
                f"Expected memory of one of the devices {', '.join(self._device_indexes)}, got {device_uuid!r}"
            )
        return index

    def _wait_for(self, device: int, event_handle: bytes) -> None:
        # Of the host, and not of a stream: the tensor is read by threads and on streams that nobody knows yet. The
        # servers that are known tell of features when they are complete, so nothing is waited for.
        event = self._driver.open_event(device, event_handle)
        try:
            self._driver.wait(device, event)
        finally:
            self._driver.destroy_event(device, event)

    def _start_closer(self) -> None:
        with self._lock:
            if not self._stop.alive:
                raise ValueError("Expected open CUDA memory, got a closed one")
            if not self._is_started:
                # It knows the parts and not the whole, so that a client that is forgotten stops it.
                threading.Thread(
                    target=_close_all,
                    args=(self._closings, self._driver, self._imported, self._is_closed),
                    name="monopath-cuda-close",
                    daemon=True,
                ).start()
                self._is_started = True


class _Closing:
    """A mapping to be given up once. An exchange of one attribute is all it does, so that a finalizer may call it."""

    __slots__ = ("_closings", "_tickets", "device", "handle", "then")

    def __init__(self, closings: _Closings, device: int, handle: bytes) -> None:
        self._closings = closings
        self._tickets = [None]
        self.device = device
        self.handle = handle
        self.then: Callable[[], object] | None = None

    def __call__(self, then: Callable[[], object] | None = None) -> None:
        try:
            self._tickets.pop()  # atomic: only one caller gets it
        except IndexError:
            return
        self.then = then
        self._closings.put(self)


_Closings: TypeAlias = "queue.SimpleQueue[_Closing | None]"


def _close_all(closings: _Closings, driver: CudaDriver, imported: ImportedMemory, is_closed: threading.Event) -> None:
    """Close what is given up, until a None has come and nothing is open any more.

    One wait for the device serves all that has come meanwhile.
    """
    while not is_closed.is_set() or len(imported):
        batch = [closings.get()]
        with contextlib.suppress(queue.Empty):
            while True:
                batch.append(closings.get_nowait())
        found = [closing for closing in batch if closing is not None]
        for device in {closing.device for closing in found}:
            _try(functools.partial(driver.synchronize, device))
        for closing in found:
            _try(functools.partial(imported.release, closing.device, closing.handle))
            if closing.then is not None:
                _try(closing.then)
        if len(found) < len(batch):
            is_closed.set()


def _try(step: Callable[[], object]) -> None:
    """Take a step that, where it fails, must not keep the others from being taken."""
    try:
        step()
    except Exception as error:
        logger.warning("Closing GPU memory of a server failed", exc_info=error)
