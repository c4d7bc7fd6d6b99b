"""Images and features on their way to the server in shared memory."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from monopath.shared_memory import SegmentOwner, SharedMemoryFull, WritableSegment
from monopath.v1 import location_pb2

__all__ = ["MIN_UPLOAD_BYTES", "Upload", "UploadPool"]

MIN_UPLOAD_BYTES = 128 * 1024
"""Fewer bytes are sooner sent in a message than opened, read and closed as a file."""
_SMALLEST_SEGMENT_BYTES = 64 * 1024
_IDLE_BYTES = 64 << 20


class Upload:
    """A segment for the bytes of one item on one stream. Safe to use from every thread."""

    __slots__ = ("_lock", "_pool", "_segment")

    def __init__(self, pool: UploadPool, segment: WritableSegment) -> None:
        """For `UploadPool.take` to call."""
        self._pool = pool
        self._segment: WritableSegment | None = segment
        self._lock = threading.Lock()

    def write(self, data: npt.NDArray[np.uint8]) -> location_pb2.SharedMemoryHandle | None:
        """Put the bytes of an array of any strides there, in C order. None where the item has ended meanwhile.

        To be called in the order in which requests are sent: each handle's generation is larger than the last one's.
        """
        # Not to be given back while it is written: somebody else would write to it too.
        with self._lock:
            if self._segment is None:
                return None
            np.copyto(np.frombuffer(self._segment.memory, np.uint8, count=data.size).reshape(data.shape), data)
            return location_pb2.SharedMemoryHandle(
                name=self._segment.name, length_bytes=data.size, generation=self._pool.next_generation()
            )

    def end(self) -> None:
        """The server reads it no more. Calling it again does nothing."""
        with self._lock:
            segment, self._segment = self._segment, None
        if segment is not None:
            self._pool._take_back(segment)


class UploadPool:
    """Hands out segments, and keeps some of those that were given back: a fresh one costs ten times a warm one.

    Safe to use from every thread.
    """

    def __init__(self, owner: SegmentOwner, idle_bytes: int = _IDLE_BYTES) -> None:
        """`idle_bytes` bounds what is kept for reuse."""
        self._owner = owner
        self._idle_limit_bytes = idle_bytes
        self._idle: OrderedDict[str, WritableSegment] = OrderedDict()
        self._idle_bytes = 0
        self._generations = itertools.count(1)
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> Upload:
        """Return room for as many bytes.

        Raises:
            SharedMemoryFull: there is none.
            OSError: the directory cannot be used any more.
        """
        segment_bytes = _segment_bytes(size_bytes)
        with self._lock:
            for name, segment in reversed(self._idle.items()):  # the warmest of its size
                if segment.size_bytes == segment_bytes:
                    del self._idle[name]
                    self._idle_bytes -= segment_bytes
                    return Upload(self, segment)
        try:
            segment = self._owner.create(segment_bytes)
        except SharedMemoryFull:
            if not self._drop_idle(0):
                raise
            segment = self._owner.create(segment_bytes)
        return Upload(self, segment)

    def next_generation(self) -> int:
        """Return a number larger than all before."""
        return next(self._generations)

    def _take_back(self, segment: WritableSegment) -> None:
        with self._lock:
            self._idle[segment.name] = segment
            self._idle_bytes += segment.size_bytes
        self._drop_idle(self._idle_limit_bytes)

    def _drop_idle(self, limit_bytes: int) -> bool:
        """Take segments away that were not used for longest. Returns whether there were any."""
        dropped: list[WritableSegment] = []
        with self._lock:
            while self._idle_bytes > limit_bytes:
                _, segment = self._idle.popitem(last=False)
                self._idle_bytes -= segment.size_bytes
                dropped.append(segment)
        for segment in dropped:
            segment.unlink()
        return bool(dropped)


def _segment_bytes(size_bytes: int) -> int:
    """Round up to a quarter of a power of two, so that similar sizes share segments and at most a quarter is wasted."""
    if size_bytes <= _SMALLEST_SEGMENT_BYTES:
        return _SMALLEST_SEGMENT_BYTES
    step = 1 << ((size_bytes - 1).bit_length() - 3)
    return -(-size_bytes // step) * step
