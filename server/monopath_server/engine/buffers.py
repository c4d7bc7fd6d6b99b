"""Pooled memory for features and received bytes.

The first touch of fresh memory costs up to a millisecond a MiB, and the C library gives large blocks back on every
free; so buffers are kept and handed out again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Self

import numpy as np
import numpy.typing as npt

from monopath_server.engine.rows import HostRows

__all__ = ["Buffer", "BufferPool", "block_bytes"]

SMALLEST_BYTES = 64 * 1024


class Buffer(HostRows):
    """Memory that one holder owns until `release`. As a context manager it is released on every way out."""

    __slots__ = ("_block", "_pool", "size_bytes")

    def __init__(self, pool: BufferPool, block: npt.NDArray[np.uint8], size_bytes: int) -> None:
        self._pool = pool
        self._block: npt.NDArray[np.uint8] | None = block
        self.size_bytes = size_bytes

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The memory, uint8 [size_bytes]. Raises `RuntimeError` after `release`."""
        if self._block is None:
            raise RuntimeError("Expected a held buffer, got a released one")
        return self._block[: self.size_bytes]

    def release(self) -> None:
        """Give the memory back. Calling it again does nothing."""
        block, self._block = self._block, None
        if block is not None:
            self._pool._take_back(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.release()


class BufferPool:
    """Hands out buffers and keeps released ones for reuse, up to `idle_bytes`. Safe to use from every thread."""

    def __init__(self, idle_bytes: int) -> None:
        self._idle_limit_bytes = idle_bytes
        self._idle: OrderedDict[int, npt.NDArray[np.uint8]] = OrderedDict()
        self._idle_bytes = 0
        self._held_bytes = 0
        self._serial = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """Bytes in buffers that are not released."""
        return self._held_bytes

    @property
    def idle_bytes(self) -> int:
        """Bytes kept for reuse."""
        return self._idle_bytes

    def take(self, size_bytes: int) -> Buffer:
        """A buffer of `size_bytes` bytes with unspecified content."""
        rounded_bytes = block_bytes(size_bytes)
        with self._lock:
            self._held_bytes += rounded_bytes
            for serial, block in reversed(self._idle.items()):  # the warmest of its size
                if block.nbytes == rounded_bytes:
                    del self._idle[serial]
                    self._idle_bytes -= rounded_bytes
                    return Buffer(self, block, size_bytes)
        try:
            block = np.empty(rounded_bytes, dtype=np.uint8)
        except MemoryError:
            with self._lock:
                self._held_bytes -= rounded_bytes
            raise
        return Buffer(self, block, size_bytes)

    def _take_back(self, block: npt.NDArray[np.uint8]) -> None:
        with self._lock:
            self._held_bytes -= block.nbytes
            if block.nbytes > self._idle_limit_bytes:
                return
            self._serial += 1
            self._idle[self._serial] = block
            self._idle_bytes += block.nbytes
            while self._idle_bytes > self._idle_limit_bytes:
                _, oldest = self._idle.popitem(last=False)
                self._idle_bytes -= oldest.nbytes


def block_bytes(size_bytes: int) -> int:
    """Round up to a quarter of a power of two, so that similar sizes share blocks and at most a quarter is wasted."""
    if size_bytes <= SMALLEST_BYTES:
        return SMALLEST_BYTES
    step = 1 << ((size_bytes - 1).bit_length() - 3)
    return -(-size_bytes // step) * step
