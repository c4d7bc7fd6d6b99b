"""The pool of segments: reuse, its bound, what is done where there is no room, and what is never used again."""

from __future__ import annotations

import errno
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from monopath.shared_memory import HEADER_BYTES, SegmentOwner, SharedMemoryFull, WritableSegment, segment_header
from monopath.v1 import location_pb2
from monopath_server.delivery.segments import SegmentPool, SegmentRows
from monopath_server.engine.buffers import Buffer, BufferPool
from tests.support.segments import MappedSegment, segment_names, shared_directory
from tests.support.tmpfs import mounted_tmpfs

KIB = 1024
ROWS_BYTES = 256 * KIB
SEGMENT_BYTES = HEADER_BYTES + ROWS_BYTES
"""Of rows of a size that needs no rounding."""


@pytest.fixture
def directory() -> Iterator[Path]:
    with shared_directory() as path:
        yield path


@pytest.fixture
def owner(directory: Path) -> Iterator[SegmentOwner]:
    with SegmentOwner(directory) as made:
        yield made


class NoRoom:
    """Others that have nothing to let go of."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        """Bytes that they were asked for."""

    def __call__(self, size_bytes: int) -> int:
        self.asked.append(size_bytes)
        return 0


def pool_of(owner: SegmentOwner, segment_count: int, make_room: Callable[[int], int] | None = None) -> SegmentPool:
    return SegmentPool(owner, segment_count * SEGMENT_BYTES, make_room or NoRoom())


def taken(pool: SegmentPool, size_bytes: int = ROWS_BYTES) -> SegmentRows:
    rows = pool.take(size_bytes)
    assert rows is not None
    return rows


def mapped(owner: SegmentOwner, rows: SegmentRows) -> MappedSegment:
    part = rows.part
    return MappedSegment.open(
        owner.directory,
        location_pb2.SharedMemoryHandle(
            name=part.name,
            offset_bytes=part.offset_bytes,
            length_bytes=part.length_bytes,
            generation=part.generation,
        ),
    )


def test_what_is_written_to_rows_is_what_a_reader_maps_behind_the_header(owner: SegmentOwner) -> None:
    rows = taken(pool_of(owner, 1), 100_003)
    rows.array[:] = np.arange(100_003) % 251
    found = mapped(owner, rows)
    assert found.data == rows.array.tobytes()
    assert found.handle.offset_bytes == HEADER_BYTES
    assert found.memory[:16] == segment_header(rows.part.generation)
    rows.release()


def test_a_released_segment_is_used_again_in_a_larger_generation(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 4)
    first = taken(pool)
    before = first.part
    reader = mapped(owner, first)
    first.release()
    assert (pool.held_bytes, pool.idle_bytes) == (0, SEGMENT_BYTES)
    second = taken(pool)
    assert second.part.name == before.name
    assert second.part.generation > before.generation
    # Who reads on without a lease can see that the memory has another use.
    assert reader.generation == second.part.generation
    second.release()


def test_generations_grow_over_all_segments(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 16)
    rows = [taken(pool) for _ in range(10)]
    generations = [each.part.generation for each in rows]
    assert generations == sorted(set(generations))
    assert generations[0] > 0
    assert len({each.part.name for each in rows}) == 10


def test_sizes_that_round_to_the_same_share_segments_and_others_do_not(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 16)
    rows = taken(pool, ROWS_BYTES)
    name = rows.part.name
    rows.release()
    smaller = taken(pool, ROWS_BYTES - 1000)
    assert smaller.part.name == name
    assert smaller.part.length_bytes == ROWS_BYTES - 1000
    other = taken(pool, 2 * ROWS_BYTES)
    assert other.part.name != name


def test_released_rows_cannot_be_used_and_releasing_again_does_nothing(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 4)
    rows = taken(pool)
    rows.release()
    rows.release()
    assert pool.idle_bytes == SEGMENT_BYTES
    with pytest.raises(RuntimeError, match="released"):
        _ = rows.array
    with pytest.raises(RuntimeError, match="released"):
        _ = rows.part


def test_the_limit_is_kept_and_there_is_room_again_after_a_release(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 3)
    rows = [taken(pool) for _ in range(3)]
    assert pool.take(ROWS_BYTES) is None
    assert pool.take(ROWS_BYTES) is None
    assert pool.full_count == 2
    assert pool.held_bytes == 3 * SEGMENT_BYTES
    rows[0].release()
    assert taken(pool).size_bytes == ROWS_BYTES


def test_rows_larger_than_the_limit_never_fit_and_cost_nobody_anything(owner: SegmentOwner) -> None:
    others = NoRoom()
    pool = pool_of(owner, 3, others)
    taken(pool).release()
    assert pool.take(4 * ROWS_BYTES) is None
    assert pool.idle_bytes == SEGMENT_BYTES
    assert others.asked == []


def test_idle_segments_of_other_sizes_are_dropped_before_anybody_is_refused(owner: SegmentOwner) -> None:
    others = NoRoom()
    pool = pool_of(owner, 4, others)
    small = [taken(pool) for _ in range(4)]
    names = [rows.part.name for rows in small]
    for rows in small:
        rows.release()
    large = taken(pool, 2 * ROWS_BYTES)
    # The oldest went, no more of them than it took, and their names with them.
    assert segment_names(owner.directory) == {*names[2:], large.part.name}
    assert others.asked == []


def test_others_are_asked_for_room_without_the_lock_and_what_they_release_is_used(owner: SegmentOwner) -> None:
    kept: list[SegmentRows] = []
    asked: list[int] = []

    def make_room(size_bytes: int) -> int:
        asked.append(size_bytes)
        # The pool can be used meanwhile, also in another thread.
        kept.pop().release()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: taken(pool).release()).result(timeout=20)
        return size_bytes

    pool = pool_of(owner, 2, make_room)
    kept.extend(taken(pool) for _ in range(2))
    assert taken(pool, ROWS_BYTES // 2).part.length_bytes == ROWS_BYTES // 2
    assert asked == [HEADER_BYTES + ROWS_BYTES // 2]


def test_a_retired_segment_is_never_used_again_and_stays_readable(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 8)
    rows = taken(pool)
    rows.array[:] = 7
    name = rows.part.name
    reader = mapped(owner, rows)
    rows.retire()
    rows.release()
    assert (pool.held_bytes, pool.idle_bytes, pool.retired_bytes) == (0, 0, SEGMENT_BYTES)
    later_names = set()
    for _ in range(50):
        later = taken(pool)
        later.array[:] = 9
        later_names.add(later.part.name)
        later.release()
    assert name not in later_names
    assert reader.data == bytes([7]) * ROWS_BYTES
    assert reader.generation == reader.handle.generation


def test_a_retired_segment_can_still_be_opened_until_it_is_forgotten(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 8)
    rows = taken(pool)
    rows.array[:] = 7
    handle = mapped(owner, rows).handle
    rows.retire()
    rows.release()
    pool.forget_retired(3600)
    late = MappedSegment.open(owner.directory, handle)
    pool.forget_retired(0)
    assert handle.name not in segment_names(owner.directory)
    assert pool.retired_bytes == 0
    assert late.data == bytes([7]) * ROWS_BYTES


def test_retired_segments_make_room_first(owner: SegmentOwner) -> None:
    others = NoRoom()
    pool = pool_of(owner, 3, others)
    idle, retired, held = (taken(pool) for _ in range(3))
    names = [rows.part.name for rows in (idle, retired, held)]
    idle.release()
    retired.retire()
    retired.release()
    reused = taken(pool)
    fresh = taken(pool)
    assert reused.part.name == names[0]
    assert fresh.part.name not in names
    assert names[1] not in segment_names(owner.directory)
    assert pool.take(ROWS_BYTES) is None
    assert others.asked == [SEGMENT_BYTES]


class FullOwner(SegmentOwner):
    """An owner whose directory has room for so many segments at a time."""

    def __init__(self, directory: Path, room: int, error: int = errno.ENOSPC) -> None:
        super().__init__(directory)
        self.room = room
        self.error = error
        self.tries = 0

    def create(self, size_bytes: int) -> WritableSegment:
        self.tries += 1
        if len(segment_names(self.directory)) >= self.room:
            raise SharedMemoryFull(os.strerror(self.error))
        return super().create(size_bytes)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_where_the_system_has_no_room_idle_and_retired_segments_go_first(directory: Path, error: int) -> None:
    others = NoRoom()
    with FullOwner(directory, 2, error) as owner:
        pool = pool_of(owner, 100, others)
        idle, retired = taken(pool), taken(pool)
        idle.release()
        retired.retire()
        retired.release()
        large = taken(pool, 4 * ROWS_BYTES)
        assert segment_names(directory) == {large.part.name}
        assert (pool.idle_bytes, pool.retired_bytes) == (0, 0)
        assert others.asked == []


def test_where_the_system_has_no_room_what_others_release_is_really_given_up(directory: Path) -> None:
    with FullOwner(directory, 1) as owner:
        kept: list[SegmentRows] = []

        def make_room(_size_bytes: int) -> int:
            rows = kept.pop()
            rows.release()
            return rows.size_bytes

        pool = pool_of(owner, 100, lambda size_bytes: make_room(size_bytes) if kept else 0)
        kept.append(taken(pool))
        large = taken(pool, 4 * ROWS_BYTES)
        assert segment_names(directory) == {large.part.name}


def test_without_any_room_nothing_is_counted_and_tries_are_few(directory: Path) -> None:
    with FullOwner(directory, 0) as owner:
        pool = pool_of(owner, 4)
        for count in range(1, 21):
            assert pool.take(ROWS_BYTES) is None
            assert pool.full_count == count
        assert owner.tries <= 20
        assert (pool.held_bytes, pool.idle_bytes, pool.retired_bytes) == (0, 0, 0)
        owner.room = 4
        assert [taken(pool).size_bytes for _ in range(4)] == [ROWS_BYTES] * 4


def test_an_unexpected_error_is_raised_and_counts_nothing(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 1)
    owner.close()
    with pytest.raises(ValueError, match="closed"):
        pool.take(ROWS_BYTES)
    assert pool.held_bytes == 0
    assert pool.full_count == 0


def test_a_place_falls_back_to_ordinary_memory(owner: SegmentOwner) -> None:
    pool, buffers = pool_of(owner, 1), BufferPool(0)
    place = pool.place(buffers)
    first, second = place.take(ROWS_BYTES), place.take(ROWS_BYTES)
    assert isinstance(first, SegmentRows)
    assert isinstance(second, Buffer)
    first.release()
    second.release()
    assert isinstance(place.take(ROWS_BYTES), SegmentRows)
    assert buffers.held_bytes == 0


def test_a_directory_of_four_mebibytes_gives_what_it_has_and_no_bus_error(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path, "4m") as small, SegmentOwner(small) as owner:
        pool = SegmentPool(owner, 1 << 30, NoRoom())
        rows: list[SegmentRows] = []
        while (each := pool.take(1 << 20)) is not None:
            each.array[:] = len(rows)
            rows.append(each)
        assert len(rows) == 3
        for index, each in enumerate(rows):
            assert each.array.min() == each.array.max() == index
        for each in rows:
            each.release()
        # Other sizes get the same memory.
        large = pool.take(3 << 20)
        assert large is not None
        large.array[:] = 1


def test_threads_never_share_a_segment_and_the_bound_holds(owner: SegmentOwner) -> None:
    pool = pool_of(owner, 12)
    in_use: set[str] = set()
    retired: set[str] = set()
    guard = threading.Lock()
    serial = itertools.count(1)
    full = threading.Event()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            rows = pool.take(chance.choice((ROWS_BYTES, ROWS_BYTES // 2, 2 * ROWS_BYTES)))
            if rows is None:
                full.set()
                continue
            mark = next(serial) % 251
            name = rows.part.name
            with guard:
                assert name not in in_use
                assert name not in retired
                in_use.add(name)
            rows.array[:] = mark
            assert pool.held_bytes + pool.idle_bytes + pool.retired_bytes <= 12 * SEGMENT_BYTES
            assert rows.array.min() == rows.array.max() == mark
            with guard:
                in_use.discard(name)
                if chance.random() < 0.3:
                    rows.retire()
                    retired.add(name)
            rows.release()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert retired
    assert pool.held_bytes == 0
    pool.forget_retired(0)
    kept = sum((owner.directory / name).stat().st_size for name in segment_names(owner.directory))
    assert kept == pool.idle_bytes
