"""Pooled memory of a GPU for features, in blocks that clients of this host open through CUDA IPC."""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monopath.cuda_driver import CudaDriver, CudaError
from monopath_server.delivery.parts import DevicePart
from monopath_server.engine.buffers import block_bytes
from monopath_server.engine.device_rows import DeviceRows, FallbackPlace, Place
from monopath_server.engine.rows import HostPlace

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceMemoryPool", "DeviceProbe", "PooledDeviceRows"]

BLOCK_STEP_BYTES = 2 * 1024 * 1024
"""The driver cuts smaller blocks out of one of this size, and a handle gives its reader the whole of it."""
RETIRED_SECONDS = 600.0
NONCE_BYTES = 32
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """Memory with a secret in it, by which a client finds out whether it can open this server's."""

    part: DevicePart
    nonce: bytes


@dataclass(slots=True, eq=False)
class _Block:
    """Memory and its event, both known to other processes. They live and die together."""

    pointer: int
    size_bytes: int
    event: int
    memory_handle: bytes
    event_handle: bytes


class PooledDeviceRows(DeviceRows):
    """Features in a block of their own."""

    __slots__ = ("_block", "_generation", "_is_retired", "_pool", "_tensor", "size_bytes")

    def __init__(self, pool: DeviceMemoryPool, block: _Block, size_bytes: int, generation: int) -> None:
        self._pool = pool
        self._block: _Block | None = block
        self._generation = generation
        self._is_retired = False
        self._tensor: torch.Tensor | None = None
        self.size_bytes = size_bytes

    @property
    def tensor(self) -> torch.Tensor:
        if self._tensor is None:
            self._tensor = self._pool._as_tensor(self._held, self.size_bytes)
        return self._tensor

    @property
    def part(self) -> DevicePart:
        """What a client needs to open the bytes. Raises `RuntimeError` after `release`."""
        return self._pool._part(self._held, self.size_bytes, self._generation)

    def mark_written(self, stream_handle: int) -> None:
        self._pool._record(self._held, stream_handle)

    def retire(self) -> None:
        """Somebody may go on reading without a lease: the memory is not to be used for anything else, ever."""
        self._is_retired = True

    def release(self) -> None:
        # Calls no driver: it runs on the event loop.
        block, self._block, self._tensor = self._block, None, None
        if block is not None:
            self._pool._take_back(block, is_retired=self._is_retired)

    @property
    def _held(self) -> _Block:
        if self._block is None:
            raise RuntimeError("Expected held device memory, got a released one")
        return self._block


class DeviceMemoryPool:
    """Hands out blocks of one device and keeps released ones for reuse. Safe to use from every thread.

    CUDA leaves undefined what becomes of memory that is freed while another process has it open. So:

    * A block that its client released may be freed: the client closed it before (`monopath.cuda_memory`).
    * A block whose lease ended otherwise is retired. It is never written again, but it counts as used, and nobody tells
      when its reader is done. It is freed when it has been retired for `retired_seconds` *and* its room is needed. That
      is a compromise with what CUDA promises: a client that goes on using a tensor for so long after its lease has
      ended has to copy it.
    * Until then a full pool is no fault: features go in chunks.

    A handle is as good as the memory: a process that has opened a block can read what others get in it later, until the
    server ends. Only processes of this host's PID namespace, and of a user who may, get that far.
    """

    def __init__(
        self,
        driver: CudaDriver,
        device_index: int,
        uuid: str,
        limit_bytes: int,
        *,
        retired_seconds: float = RETIRED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the pool and its probe. Not for the event loop.

        Args:
            driver: The CUDA driver.
            device_index: Which device, as the driver counts.
            uuid: The same device, as clients know it.
            limit_bytes: Memory in all: in use, kept for reuse and retired, and 2 MiB for the probe.
            retired_seconds: How long the memory of a lease that was not released is surely left alone.
            clock: Tells seconds.

        Raises:
            CudaError: the device cannot export memory.
        """
        self.uuid = uuid
        self.full_count = 0
        """How often there was no room."""
        self._driver = driver
        self._device = device_index
        self._limit_bytes = limit_bytes
        self._retired_seconds = retired_seconds
        self._clock = clock
        self._generations = itertools.count(1)
        self._idle: OrderedDict[int, _Block] = OrderedDict()
        self._retired: deque[tuple[float, _Block]] = deque()
        self._total_bytes = 0
        self._lock = threading.Lock()
        self.probe = self._make_probe()
        """What `ready` offers."""

    @property
    def held_bytes(self) -> int:
        """Bytes in blocks that are not released, that of the probe among them."""
        with self._lock:
            return self._total_bytes - sum(block.size_bytes for block in self._idle.values()) - self._retired_bytes

    @property
    def idle_bytes(self) -> int:
        """Bytes kept for reuse."""
        with self._lock:
            return sum(block.size_bytes for block in self._idle.values())

    @property
    def retired_bytes(self) -> int:
        """Bytes that somebody may still read without a lease."""
        with self._lock:
            return self._retired_bytes

    def take(self, size_bytes: int) -> PooledDeviceRows | None:
        """Memory of `size_bytes` bytes with unspecified content; None where none is left. Not for the event loop.

        Raises:
            CudaError: the device fails in another way.
        """
        block = self._take_block(-(-block_bytes(size_bytes) // BLOCK_STEP_BYTES) * BLOCK_STEP_BYTES)
        if block is None:
            with self._lock:
                self.full_count += 1
            return None
        return PooledDeviceRows(self, block, size_bytes, next(self._generations))

    def place(self, fallback: HostPlace) -> Place:
        """A place in this pool, and in `fallback` where it is full."""
        return FallbackPlace(self.take, fallback)

    def trim(self) -> None:
        """Free what is kept for reuse, and what was retired long enough ago. Not for the event loop."""
        with self._lock:
            freed = [*self._pop_expired(), *self._idle.values()]
            self._idle.clear()
            self._total_bytes -= sum(block.size_bytes for block in freed)
        self._free(freed)

    def _make_probe(self) -> DeviceProbe:
        nonce = secrets.token_bytes(NONCE_BYTES)
        rows = self.take(len(nonce))
        if rows is None:
            raise CudaError(f"Expected {BLOCK_STEP_BYTES} free bytes on the device, got fewer")
        block = rows._held
        self._driver.copy_to_device(self._device, block.pointer, memoryview(nonce))
        self._driver.record(self._device, block.event, 0)
        return DeviceProbe(rows.part, nonce)  # never released: it is the pool's own

    def _take_block(self, size_bytes: int) -> _Block | None:
        with self._lock:
            for pointer, block in reversed(self._idle.items()):
                if block.size_bytes == size_bytes:
                    del self._idle[pointer]
                    return block
            freed = self._make_room(size_bytes)
            fits = self._total_bytes + size_bytes <= self._limit_bytes
            if fits:
                self._total_bytes += size_bytes
        # The driver is called without the lock: it can wait for the device, and the event loop for the lock.
        try:
            self._free(freed)
            return self._create(size_bytes) if fits else None
        except BaseException:
            with self._lock:
                self._total_bytes -= size_bytes if fits else 0
            raise

    def _make_room(self, size_bytes: int) -> list[_Block]:
        """Stop counting what has to go for a new block, idle memory first. With the lock held."""
        freed: list[_Block] = []
        excess_bytes = self._total_bytes + size_bytes - self._limit_bytes
        idle_bytes = sum(block.size_bytes for block in self._idle.values())
        expired = self._pop_expired() if excess_bytes > idle_bytes else []
        for block in expired:
            excess_bytes -= block.size_bytes
            freed.append(block)
        while self._idle and excess_bytes > 0:
            _, block = self._idle.popitem(last=False)
            excess_bytes -= block.size_bytes
            freed.append(block)
        self._total_bytes -= sum(block.size_bytes for block in freed)
        return freed

    def _pop_expired(self) -> list[_Block]:
        expired = []
        oldest = self._clock() - self._retired_seconds
        while self._retired and self._retired[0][0] <= oldest:
            expired.append(self._retired.popleft()[1])
        return expired

    def _create(self, size_bytes: int) -> _Block | None:
        """Make a block that is counted already."""
        try:
            try:
                return self._allocate(size_bytes)
            except CudaError as error:
                if not error.is_out_of_memory:
                    raise
            # Others fill the device: what is kept for reuse in other sizes is of no use in it.
            self.trim()
            return self._allocate(size_bytes)
        except CudaError as error:
            if not error.is_out_of_memory:
                raise
            logger.info("No memory of the device %s for %d bytes: %s", self.uuid, size_bytes, error)
        with self._lock:
            self._total_bytes -= size_bytes
        return None

    def _allocate(self, size_bytes: int) -> _Block:
        driver, device = self._driver, self._device
        with contextlib.ExitStack() as undo:
            pointer = driver.allocate(device, size_bytes)
            undo.callback(driver.free, device, pointer)
            event = driver.new_event(device)
            undo.callback(driver.destroy_event, device, event)
            block = _Block(
                pointer, size_bytes, event, driver.memory_handle(device, pointer), driver.event_handle(device, event)
            )
            undo.pop_all()
        return block

    def _free(self, blocks: list[_Block]) -> None:
        for block in blocks:
            self._driver.free(self._device, block.pointer)
            self._driver.destroy_event(self._device, block.event)

    def _take_back(self, block: _Block, *, is_retired: bool) -> None:
        with self._lock:
            if is_retired:
                self._retired.append((self._clock(), block))
            else:
                self._idle[block.pointer] = block

    @property
    def _retired_bytes(self) -> int:
        return sum(block.size_bytes for _, block in self._retired)

    def _as_tensor(self, block: _Block, size_bytes: int) -> torch.Tensor:
        return self._driver.as_tensor(self._device, block.pointer, size_bytes)

    def _part(self, block: _Block, size_bytes: int, generation: int) -> DevicePart:
        return DevicePart(self.uuid, block.memory_handle, 0, size_bytes, block.event_handle, generation)

    def _record(self, block: _Block, stream_handle: int) -> None:
        self._driver.record(self._device, block.event, stream_handle)
