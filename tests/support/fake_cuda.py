"""A GPU that several processes share, played on the CPU: it gives what CUDA gives, and fails a test where CUDA would
leave the outcome undefined."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from monopath.cuda_driver import HANDLE_BYTES, OUT_OF_MEMORY, CudaError

__all__ = ["FakeCudaDriver", "FakeMachine"]


@dataclass(eq=False)
class _Block:
    owner: FakeCudaDriver
    device: int
    memory: NDArray[np.uint8]
    handle: bytes
    opened_by: list[FakeCudaDriver] = field(default_factory=list)
    is_freed: bool = False


@dataclass(eq=False)
class _Event:
    owner: FakeCudaDriver
    handle: bytes
    is_recorded: bool = False
    opened_by: list[FakeCudaDriver] = field(default_factory=list)
    is_destroyed: bool = False


class FakeMachine:
    """GPUs, and what the processes on them have exported."""

    def __init__(self, *uuids: str, memory_bytes: int = 1 << 40) -> None:
        self.uuids = uuids or ("GPU-00000000-0000-0000-0000-000000000000",)
        self.memory_bytes = memory_bytes
        """Of each device."""
        self.blocks: dict[bytes, _Block] = {}
        self.events: dict[bytes, _Event] = {}
        self.misuses: list[str] = []
        """What was done that CUDA leaves undefined; a test asserts that it is empty."""
        self.numbers = itertools.count(1)
        self.lock = threading.RLock()

    def used_bytes(self, device: int = 0) -> int:
        """Bytes of a device that are allocated."""
        return sum(
            block.memory.nbytes for block in self.blocks.values() if block.device == device and not block.is_freed
        )

    def new_handle(self, kind: bytes) -> bytes:
        """A handle that no other has."""
        return (kind + next(self.numbers).to_bytes(8, "big")).ljust(HANDLE_BYTES, b"\0")


class _HostMemory:
    """What numpy takes memory from; the array keeps it, and it keeps the owner."""

    def __init__(self, memory: NDArray[np.uint8], owner: object) -> None:
        self.__array_interface__ = memory.__array_interface__
        self.kept = (memory, owner)


class FakeCudaDriver:
    """One process's driver. Pointers and events are this process's own, as they are in CUDA."""

    def __init__(self, machine: FakeMachine | None = None) -> None:
        self.machine = machine or FakeMachine()
        self.calls: list[str] = []
        """Names of all calls, in order."""
        self.recorded_on: list[int] = []
        """Streams that events were recorded on."""
        self._pointers: dict[int, _Block] = {}
        self._events: dict[int, _Event] = {}

    @property
    def open_count(self) -> int:
        """Other processes' blocks that are open here."""
        return sum(block.owner is not self for block in self._pointers.values())

    @property
    def event_count(self) -> int:
        """Events of this process, and opened ones."""
        return len(self._events)

    def device_uuids(self) -> tuple[str, ...]:
        return self.machine.uuids

    def allocate(self, device: int, size_bytes: int) -> int:
        self._called("allocate", device)
        with self.machine.lock:
            if self.machine.used_bytes(device) + size_bytes > self.machine.memory_bytes:
                raise CudaError("cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY: out of memory", OUT_OF_MEMORY)
            memory = np.random.default_rng(next(self.machine.numbers)).integers(0, 256, size_bytes, np.uint8)
            block = _Block(self, device, memory, self.machine.new_handle(b"memory"))
            self.machine.blocks[block.handle] = block
            return self._add_pointer(block)

    def free(self, device: int, pointer: int) -> None:
        self._called("free", device)
        with self.machine.lock:
            block = self._take_pointer(pointer, "freed")
            if block.owner is not self:
                self._misuse("memory of another process is freed")
            if block.opened_by:
                self._misuse("memory is freed that another process has open")
            block.is_freed = True
            del self.machine.blocks[block.handle]

    def memory_handle(self, device: int, pointer: int) -> bytes:
        self._called("memory_handle", device)
        block = self._block_at(pointer)
        if block.owner is not self:
            raise CudaError("cuIpcGetMemHandle failed with CUDA_ERROR_INVALID_VALUE", 1)
        return block.handle

    def new_event(self, device: int) -> int:
        self._called("new_event", device)
        with self.machine.lock:
            event = _Event(self, self.machine.new_handle(b"event"))
            self.machine.events[event.handle] = event
            return self._add_event(event)

    def event_handle(self, device: int, event: int) -> bytes:
        self._called("event_handle", device)
        return self._event_at(event).handle

    def record(self, device: int, event: int, stream: int) -> None:
        self._called("record", device)
        self._event_at(event).is_recorded = True
        self.recorded_on.append(stream)

    def wait(self, device: int, event: int) -> None:
        self._called("wait", device)
        found = self._event_at(event)
        if found.is_destroyed:
            self._misuse("an event is waited for that its owner destroyed")
        if not found.is_recorded:
            self._misuse("an event is waited for that was never recorded")

    def destroy_event(self, device: int, event: int) -> None:
        self._called("destroy_event", device)
        with self.machine.lock:
            found = self._events.pop(event, None)
            if found is None:
                self._misuse("an event is destroyed that is none")
            elif found.owner is not self:
                found.opened_by.remove(self)
            else:
                if found.opened_by:
                    self._misuse("an event is destroyed that another process has open")
                found.is_destroyed = True
                del self.machine.events[found.handle]

    def open_memory(self, device: int, handle: bytes) -> int:
        self._called("open_memory", device)
        with self.machine.lock:
            block = self.machine.blocks.get(handle)
            if block is None or block.device != device:
                raise CudaError("cuIpcOpenMemHandle_v2 failed with CUDA_ERROR_INVALID_HANDLE", 400)
            if block.owner is self:
                raise CudaError("cuIpcOpenMemHandle_v2 failed with CUDA_ERROR_INVALID_CONTEXT", 201)
            if self in block.opened_by:
                self._misuse("memory is opened twice by one process")
            block.opened_by.append(self)
            return self._add_pointer(block)

    def close_memory(self, device: int, pointer: int) -> None:
        self._called("close_memory", device)
        with self.machine.lock:
            block = self._take_pointer(pointer, "closed")
            if block.owner is self:
                self._misuse("memory is closed that was not opened")
            else:
                block.opened_by.remove(self)

    def open_event(self, device: int, handle: bytes) -> int:
        self._called("open_event", device)
        with self.machine.lock:
            event = self.machine.events.get(handle)
            if event is None or event.owner is self:
                raise CudaError("cuIpcOpenEventHandle failed with CUDA_ERROR_INVALID_HANDLE", 400)
            event.opened_by.append(self)
            return self._add_event(event)

    def synchronize(self, device: int) -> None:
        self._called("synchronize", device)

    def copy_to_host(self, device: int, pointer: int, size_bytes: int) -> bytes:
        self._called("copy_to_host", device)
        return bytes(self._memory_at(pointer, size_bytes))

    def copy_to_device(self, device: int, pointer: int, data: memoryview) -> None:
        self._called("copy_to_device", device)
        self._memory_at(pointer, data.nbytes)[...] = np.frombuffer(data, np.uint8)

    def as_tensor(self, device: int, pointer: int, size_bytes: int, owner: object = None) -> torch.Tensor:
        self._called("as_tensor", device)
        return torch.from_numpy(np.asarray(_HostMemory(self._memory_at(pointer, size_bytes), owner)))

    def to_device(self, device: int, tensor: torch.Tensor) -> torch.Tensor:
        self._called("to_device", device)
        return tensor.clone()

    def _called(self, name: str, device: int) -> None:
        if not 0 <= device < len(self.machine.uuids):
            raise CudaError(f"{name} failed with CUDA_ERROR_INVALID_DEVICE", 101)
        self.calls.append(name)

    def _add_pointer(self, block: _Block) -> int:
        # Far apart, and other ones in every process.
        pointer = next(self.machine.numbers) << 40
        self._pointers[pointer] = block
        return pointer

    def _take_pointer(self, pointer: int, what: str) -> _Block:
        try:
            return self._pointers.pop(pointer)
        except KeyError:
            self._misuse(f"memory is {what} that is not there, or twice")
            raise CudaError("CUDA_ERROR_INVALID_VALUE", 1) from None

    def _block_at(self, pointer: int) -> _Block:
        base = pointer >> 40 << 40
        if base not in self._pointers:
            self._misuse("memory is used that is not open")
            raise CudaError("CUDA_ERROR_INVALID_VALUE", 1)
        block = self._pointers[base]
        if block.is_freed:
            self._misuse("memory is used that its owner has freed")
        return block

    def _memory_at(self, pointer: int, size_bytes: int) -> NDArray[np.uint8]:
        offset = pointer & ((1 << 40) - 1)
        memory = self._block_at(pointer).memory
        if offset + size_bytes > memory.nbytes:
            self._misuse("memory is used beyond its end")
            raise CudaError("CUDA_ERROR_ILLEGAL_ADDRESS", 700)
        return memory[offset : offset + size_bytes]

    def _add_event(self, event: _Event) -> int:
        number = next(self.machine.numbers)
        self._events[number] = event
        return number

    def _event_at(self, event: int) -> _Event:
        try:
            return self._events[event]
        except KeyError:
            self._misuse("an event is used that is none")
            raise CudaError("CUDA_ERROR_INVALID_HANDLE", 400) from None

    def _misuse(self, what: str) -> None:
        self.machine.misuses.append(what)
