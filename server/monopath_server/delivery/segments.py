"""Pooled shared memory for features, in segments that clients of this host map."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from monopath.shared_memory import HEADER_BYTES, SegmentOwner, SharedMemoryFull, WritableSegment, write_generation
from monopath_server.delivery.parts import SegmentPart
from monopath_server.engine.buffers import block_bytes
from monopath_server.engine.device_rows import FallbackPlace
from monopath_server.engine.rows import HostPlace, HostRows, Rows

__all__ = ["SegmentPool", "SegmentRows", "is_in_segment"]

logger = logging.getLogger(__name__)


class SegmentRows(HostRows):
    """Features in a segment of their own, behind a page with the segment's header."""

    __slots__ = ("_generation", "_is_retired", "_pool", "_segment", "size_bytes")

    def __init__(self, pool: SegmentPool, segment: WritableSegment, size_bytes: int, generation: int) -> None:
        self._pool = pool
        self._segment: WritableSegment | None = segment
        self._generation = generation
        self._is_retired = False
        self.size_bytes = size_bytes

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The memory, uint8 [size_bytes]. Raises `RuntimeError` after `release`."""
        return np.frombuffer(self._held.memory, dtype=np.uint8, count=self.size_bytes, offset=HEADER_BYTES)

    @property
    def part(self) -> SegmentPart:
        """What a client needs to map the bytes. Raises `RuntimeError` after `release`."""
        return SegmentPart(self._held.name, HEADER_BYTES, self.size_bytes, self._generation)

    def retire(self) -> None:
        """Somebody may go on reading without a lease: the segment is not to be used for anything else, ever."""
        self._is_retired = True

    def release(self) -> None:
        """Give the memory back. Calling it again does nothing."""
        segment, self._segment = self._segment, None
        if segment is not None:
            self._pool._take_back(segment, is_retired=self._is_retired)

    @property
    def _held(self) -> WritableSegment:
        if self._segment is None:
            raise RuntimeError("Expected a held segment, got a released one")
        return self._segment


class SegmentPool:
    """Hands out segments and keeps released ones for reuse: a fresh one costs ten times a warm one.

    A released segment is one that its client released: nobody reads it any more. A retired one keeps its name for a
    while, as long as no room is needed: its client may not have come to the handle yet. Safe to use from every thread.
    """

    def __init__(self, owner: SegmentOwner, limit_bytes: int, make_room: Callable[[int], int]) -> None:
        """`make_room(size_bytes)` asks others, such as a cache, to release segments; it gives the bytes they let go."""
        self._owner = owner
        self._limit_bytes = limit_bytes
        self._make_room = make_room
        self._generations = itertools.count(1)
        self._idle: OrderedDict[str, WritableSegment] = OrderedDict()
        self._retired: deque[tuple[float, WritableSegment]] = deque()
        """The oldest first, each with the time of its retirement."""
        self._total_bytes = 0
        self._idle_bytes = 0
        self._retired_bytes = 0
        self._lock = threading.Lock()
        self.full_count = 0
        """How often there was no room."""

    @property
    def held_bytes(self) -> int:
        """Bytes in segments that are not released."""
        return self._total_bytes - self._idle_bytes - self._retired_bytes

    @property
    def idle_bytes(self) -> int:
        """Bytes kept for reuse."""
        return self._idle_bytes

    @property
    def retired_bytes(self) -> int:
        """Bytes that are for late clients only."""
        return self._retired_bytes

    def take(self, size_bytes: int) -> SegmentRows | None:
        """Memory of `size_bytes` bytes with unspecified content; None where no shared memory is left."""
        segment = self._take_segment(HEADER_BYTES + block_bytes(size_bytes))
        if segment is None:
            with self._lock:
                self.full_count += 1
            return None
        generation = next(self._generations)
        write_generation(segment.memory, generation)
        return SegmentRows(self, segment, size_bytes, generation)

    def place(self, fallback: HostPlace) -> HostPlace:
        """A place in this pool, and in `fallback` where it is full."""
        return FallbackPlace(self.take, fallback)

    def forget_retired(self, age_seconds: float) -> None:
        """Take the names of segments away that were retired that long ago. Who has mapped one can still read it."""
        latest = time.monotonic() - age_seconds
        with self._lock:
            while self._retired and self._retired[0][0] <= latest:
                self._drop_retired()

    def _take_segment(self, segment_bytes: int) -> WritableSegment | None:
        if segment_bytes > self._limit_bytes:
            return None
        with self._lock:
            # In a function of its own: what it looked at must not live on here while it is dropped to make room.
            idle = self._take_idle(segment_bytes)
            if idle is not None:
                return idle
            fits = self._reserve(segment_bytes)
        if not fits:
            # Others release what they hold through `_take_back`, so the lock must be free.
            self._make_room(segment_bytes)
            with self._lock:
                fits = self._reserve(segment_bytes)
        return self._create(segment_bytes) if fits else None

    def _take_idle(self, segment_bytes: int) -> WritableSegment | None:
        """The warmest idle segment of a size, if there is one. With the lock held."""
        for name, segment in reversed(self._idle.items()):
            if segment.size_bytes == segment_bytes:
                del self._idle[name]
                self._idle_bytes -= segment_bytes
                return segment
        return None

    def _reserve(self, segment_bytes: int) -> bool:
        """Count a segment that is about to be made, if idle ones leave it room. With the lock held."""
        while self._total_bytes + segment_bytes > self._limit_bytes:
            if not self._drop_one():
                return False
        self._total_bytes += segment_bytes
        return True

    def _create(self, segment_bytes: int) -> WritableSegment | None:
        """Make a segment that is counted already."""
        try:
            segment = self._try_create(segment_bytes)
            if segment is None and self._drop_all():
                # The directory is smaller than our limit, or others fill it: what is idle is of no use in it.
                segment = self._try_create(segment_bytes)
            if segment is None and self._make_room(segment_bytes):
                self._drop_all()
                segment = self._try_create(segment_bytes)
        except BaseException:
            self._uncount(segment_bytes)
            raise
        if segment is None:
            self._uncount(segment_bytes)
        return segment

    def _try_create(self, segment_bytes: int) -> WritableSegment | None:
        try:
            return self._owner.create(segment_bytes)
        except SharedMemoryFull as error:
            logger.info("No shared memory for %d bytes: %s", segment_bytes, error)
            return None

    def _uncount(self, segment_bytes: int) -> None:
        with self._lock:
            self._total_bytes -= segment_bytes

    def _drop_all(self) -> bool:
        """Drop all that nobody holds. Returns whether there was any."""
        with self._lock:
            was_any = self._drop_one()
            while self._drop_one():
                pass
            return was_any

    def _drop_one(self) -> bool:
        """Drop the oldest segment that nobody holds, retired ones first. With the lock held."""
        if self._retired:
            self._drop_retired()
        elif self._idle:
            _, segment = self._idle.popitem(last=False)
            self._idle_bytes -= segment.size_bytes
            self._total_bytes -= segment.size_bytes
            segment.unlink()
        else:
            return False
        return True

    def _drop_retired(self) -> None:
        _, segment = self._retired.popleft()
        self._retired_bytes -= segment.size_bytes
        self._total_bytes -= segment.size_bytes
        segment.unlink()

    def _take_back(self, segment: WritableSegment, *, is_retired: bool) -> None:
        with self._lock:
            if is_retired:
                self._retired.append((time.monotonic(), segment))
                self._retired_bytes += segment.size_bytes
            else:
                self._idle[segment.name] = segment
                self._idle_bytes += segment.size_bytes


def is_in_segment(rows: Rows) -> bool:
    """Whether rows take up shared memory."""
    return isinstance(rows, SegmentRows)
