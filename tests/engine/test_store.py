"""The store of finished features: its limit, its order, and whose memory it may free."""

from __future__ import annotations

import threading
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monopath_server.engine.buffers import BufferPool, block_bytes
from monopath_server.engine.items import CacheOutcome, Features, Provenance, Route, Timings
from monopath_server.engine.rows import Holding, Rows
from monopath_server.engine.store import ContentKey, FeatureStore
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import ElementType, GridTHW, Padding, ResampleKernel, Size
from tests.engine.test_rows import CountedRows

BLOCK_BYTES = block_bytes(1)
PLAN = PatchGridPlan(
    original_size=Size(1, 1),
    resized_size=Size(1, 1),
    padding=Padding(0, 0),
    grid_thw=GridTHW(1, 1, 1),
    token_count=1,
    patch_size=14,
)
PROVENANCE = Provenance(bytes(32), bytes(range(32)), ResampleKernel.PILLOW_13, Route.HOST)


def key(number: int) -> ContentKey:
    return ContentKey(number.to_bytes(32, "big"), None, None, bytes(32), ElementType.UINT8)


def put(store: FeatureStore, number: int, size_bytes: int = BLOCK_BYTES) -> CountedRows:
    """Put features in and let go of them, as a flight does."""
    rows = CountedRows(size_bytes)
    features = Features(Holding(rows), PLAN, PROVENANCE, Timings(1, 2, 3, 4), CacheOutcome.MISS)
    store.put(key(number), features)
    features.holding.release()
    return rows


def has(store: FeatureStore, number: int) -> bool:
    """Whether an entry is there. Makes it the most recently used one."""
    found = store.get(key(number))
    if found is not None:
        found.holding.release()
    return found is not None


def test_what_is_taken_out_shares_the_rows_and_the_provenance_and_has_no_timings_of_its_maker() -> None:
    store = FeatureStore(BLOCK_BYTES)
    rows = put(store, 1)
    found = store.get(key(1))
    assert found is not None
    assert found.holding.rows is rows
    assert found.provenance == PROVENANCE
    assert found.cache is CacheOutcome.HIT
    assert found.timings == Timings()
    store.close()
    assert rows.release_count == 0
    found.holding.release()
    assert rows.release_count == 1


def test_another_key_finds_nothing() -> None:
    store = FeatureStore(BLOCK_BYTES)
    put(store, 1)
    assert store.get(key(2)) is None


def test_the_least_recently_used_entries_make_room() -> None:
    store = FeatureStore(3 * BLOCK_BYTES)
    rows = {number: put(store, number) for number in (1, 2, 3)}
    assert has(store, 1)
    rows[4] = put(store, 4)
    assert rows[2].release_count == 1
    rows[5] = put(store, 5, 2 * BLOCK_BYTES)
    assert [number for number, counted in rows.items() if counted.release_count == 0] == [4, 5]
    assert store.stored_bytes == 3 * BLOCK_BYTES
    assert len(store) == 2


def test_an_entry_that_is_put_twice_is_kept_once() -> None:
    store = FeatureStore(3 * BLOCK_BYTES)
    first, second = put(store, 1), put(store, 1)
    assert (first.release_count, second.release_count) == (0, 1)
    assert store.stored_bytes == BLOCK_BYTES


def test_what_is_larger_than_the_limit_is_not_kept_and_drops_nothing() -> None:
    store = FeatureStore(2 * BLOCK_BYTES)
    small, large = put(store, 1), put(store, 2, 2 * BLOCK_BYTES + 1)
    assert (small.release_count, large.release_count) == (0, 1)
    assert has(store, 1)
    assert not has(store, 2)


def test_what_is_exactly_as_large_as_the_limit_is_kept_alone() -> None:
    store = FeatureStore(2 * BLOCK_BYTES)
    small, large = put(store, 1), put(store, 2, 2 * BLOCK_BYTES)
    assert (small.release_count, large.release_count) == (1, 0)
    assert store.stored_bytes == 2 * BLOCK_BYTES


def test_tiny_entries_cannot_take_more_memory_than_the_limit() -> None:
    limit_bytes = 10 * BLOCK_BYTES
    store = FeatureStore(limit_bytes)
    pool = BufferPool(idle_bytes=0)
    for number in range(100):
        features = Features(Holding(pool.take(10)), PLAN, PROVENANCE, Timings())
        store.put(key(number), features)
        features.holding.release()
    assert 0 < pool.held_bytes <= limit_bytes
    assert pool.held_bytes == store.stored_bytes
    store.close()
    assert pool.held_bytes == 0


@pytest.mark.parametrize("limit_bytes", [0, -1])
def test_a_store_without_room_is_refused(limit_bytes: int) -> None:
    with pytest.raises(ValueError, match="Expected a limit"):
        FeatureStore(limit_bytes)


def test_eviction_frees_the_least_recently_used_rows_that_qualify_and_no_more_than_needed() -> None:
    store = FeatureStore(10 * BLOCK_BYTES)
    rows = {number: put(store, number) for number in range(6)}
    assert has(store, 0)
    even = {id(rows[number]) for number in (0, 2, 4)}
    assert store.evict(lambda found: id(found) in even, BLOCK_BYTES + 1) == 2 * BLOCK_BYTES
    assert [number for number, counted in rows.items() if counted.release_count] == [2, 4]
    assert store.stored_bytes == 4 * BLOCK_BYTES
    assert store.evict(lambda found: id(found) in even, 100 * BLOCK_BYTES) == BLOCK_BYTES
    assert store.evict(lambda found: id(found) in even, 1) == 0
    assert len(store) == 3


def test_eviction_of_nothing_drops_nothing() -> None:
    store = FeatureStore(BLOCK_BYTES)
    rows = put(store, 1)
    assert store.evict(lambda _: True, 0) == 0
    assert rows.release_count == 0


def test_eviction_leaves_rows_that_somebody_else_holds_since_nothing_would_be_freed() -> None:
    store = FeatureStore(10 * BLOCK_BYTES)
    leased, idle = put(store, 1), put(store, 2)
    lease = store.get(key(1))
    assert lease is not None
    assert store.evict(lambda _: True, 10 * BLOCK_BYTES) == BLOCK_BYTES
    assert (leased.release_count, idle.release_count) == (0, 1)
    assert has(store, 1)
    lease.holding.release()
    assert store.evict(lambda _: True, 10 * BLOCK_BYTES) == BLOCK_BYTES
    assert leased.release_count == 1


def test_memory_may_call_back_into_the_store_when_it_is_released() -> None:
    store = FeatureStore(2 * BLOCK_BYTES)

    class Nested(CountedRows):
        def release(self) -> None:
            super().release()
            store.evict(lambda _: True, BLOCK_BYTES)

    features = Features(Holding(nested := Nested(BLOCK_BYTES)), PLAN, PROVENANCE, Timings())
    store.put(key(1), features)
    features.holding.release()
    other = put(store, 2)
    thread = threading.Thread(target=store.evict, args=(lambda _: True, 1), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert (nested.release_count, other.release_count) == (1, 1)


def test_a_closed_store_keeps_nothing() -> None:
    store = FeatureStore(10 * BLOCK_BYTES)
    rows = [put(store, 1), put(store, 2)]
    store.close()
    rows.append(put(store, 3))
    assert [counted.release_count for counted in rows] == [1, 1, 1]
    assert (len(store), store.stored_bytes) == (0, 0)
    store.close()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "get", "evict"]), st.integers(0, 5), st.integers(1, 5 * BLOCK_BYTES)),
        max_size=40,
    )
)
def test_the_store_is_a_least_recently_used_one_with_a_limit(steps: list[tuple[str, int, int]]) -> None:
    limit_bytes = 4 * BLOCK_BYTES
    store = FeatureStore(limit_bytes)
    model: OrderedDict[int, CountedRows] = OrderedDict()
    everything: list[CountedRows] = []
    for step, number, size_bytes in steps:
        match step:
            case "put":
                rows = put(store, number, size_bytes)
                everything.append(rows)
                if number not in model and block_bytes(size_bytes) <= limit_bytes:
                    model[number] = rows
                    while sum(block_bytes(kept.size_bytes) for kept in model.values()) > limit_bytes:
                        model.popitem(last=False)
            case "get":
                assert has(store, number) == (number in model)
                if number in model:
                    model.move_to_end(number)
            case _:
                freed_bytes = 0
                while model and freed_bytes < size_bytes:
                    freed_bytes += model.popitem(last=False)[1].size_bytes
                assert store.evict(lambda _: True, size_bytes) == freed_bytes
        assert [rows for rows in everything if not rows.release_count] == [
            rows for rows in everything if any(rows is kept for kept in model.values())
        ]
        assert store.stored_bytes == sum(block_bytes(kept.size_bytes) for kept in model.values()) <= limit_bytes
        assert len(store) == len(model)
    store.close()
    assert all(rows.release_count == 1 for rows in everything)


def test_threads_that_evict_while_others_put_and_get_never_see_released_rows() -> None:
    store = FeatureStore(4 * BLOCK_BYTES)
    everything: list[list[CountedRows]] = [[] for _ in range(4)]
    start = threading.Barrier(6)
    is_over = threading.Event()

    def use(made: list[CountedRows]) -> None:
        start.wait(30)
        for number in range(400):
            made.append(put(store, number % 8))
            found = store.get(key((number + 3) % 8))
            if found is not None:
                rows = found.holding.rows
                assert isinstance(rows, CountedRows)
                assert rows.release_count == 0
                found.holding.release()

    def evict() -> None:
        start.wait(30)
        while not is_over.is_set():
            store.evict(lambda _: True, BLOCK_BYTES)

    users = [threading.Thread(target=use, args=(made,)) for made in everything]
    evictors = [threading.Thread(target=evict) for _ in range(2)]
    for thread in users + evictors:
        thread.start()
    for thread in users:
        thread.join(60)
    is_over.set()
    for thread in evictors:
        thread.join(60)
    assert not any(thread.is_alive() for thread in users + evictors)
    store.close()
    assert all(rows.release_count == 1 for made in everything for rows in made)


def test_the_predicate_sees_the_rows_themselves() -> None:
    store = FeatureStore(BLOCK_BYTES)
    rows = put(store, 1)
    seen: list[Rows] = []

    def predicate(found: Rows) -> bool:
        seen.append(found)
        return False

    assert store.evict(predicate, 1) == 0
    assert seen == [rows]


def test_moved_rows_take_the_place_of_those_they_were_copied_from() -> None:
    store = FeatureStore(2 * BLOCK_BYTES)
    first = put(store, 1)
    other = put(store, 2)
    second = CountedRows(BLOCK_BYTES)
    moved = Holding(second)
    store.move(first, moved)
    moved.release()
    assert (first.release_count, other.release_count, second.release_count) == (1, 0, 0)
    found = store.get(key(1))
    assert found is not None
    assert found.holding.rows is second
    found.holding.release()


def test_rows_that_are_not_kept_are_not_moved() -> None:
    store = FeatureStore(BLOCK_BYTES)
    rows, stranger = put(store, 1), CountedRows(BLOCK_BYTES)
    moved = Holding(stranger)
    store.move(CountedRows(BLOCK_BYTES), moved)
    moved.release()
    assert (rows.release_count, stranger.release_count) == (0, 1)
