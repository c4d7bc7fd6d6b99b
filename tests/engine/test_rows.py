"""Shares of rows: whoever lets go last gives the memory back, once, whatever the threads do."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.rows import Holding


class CountedRows:
    """Rows that count how often they were given back."""

    def __init__(self, size_bytes: int = 1) -> None:
        self.size_bytes = size_bytes
        self.release_count = 0

    def release(self) -> None:
        self.release_count += 1


def test_the_only_holder_gives_the_memory_back() -> None:
    rows = CountedRows()
    holding = Holding(rows)
    assert holding.rows is rows
    holding.release()
    assert rows.release_count == 1


def test_the_last_of_several_holders_gives_the_memory_back() -> None:
    rows = CountedRows()
    first = Holding(rows)
    second, third = first.share(), first.share()
    first.release()
    third.release()
    assert rows.release_count == 0
    assert second.rows is rows
    second.release()
    assert rows.release_count == 1


def test_a_holder_that_lets_go_twice_takes_nothing_from_another_one() -> None:
    rows = CountedRows()
    first = Holding(rows)
    second = first.share()
    first.release()
    first.release()
    assert rows.release_count == 0
    assert second.rows is rows


def test_a_share_can_be_shared_after_the_first_holder_is_gone() -> None:
    rows = CountedRows()
    first = Holding(rows)
    second = first.share()
    first.release()
    third = second.share()
    second.release()
    assert third.rows is rows
    third.release()
    assert rows.release_count == 1


def test_a_released_holding_has_no_rows_and_cannot_be_shared() -> None:
    rows = CountedRows()
    holding = Holding(rows)
    holding.release()
    with pytest.raises(RuntimeError, match="got released ones"):
        _ = holding.rows
    with pytest.raises(RuntimeError, match="got released ones"):
        holding.share()
    assert rows.release_count == 1


def test_a_refused_share_leaves_the_other_holders_as_they_were() -> None:
    rows = CountedRows()
    first = Holding(rows)
    second = first.share()
    first.release()
    with pytest.raises(RuntimeError):
        first.share()
    second.release()
    assert rows.release_count == 1


def test_pooled_memory_is_in_use_as_long_as_anybody_holds_it() -> None:
    pool = BufferPool(idle_bytes=0)
    first = Holding(pool.take(100_000))
    second = first.share()
    held_bytes = pool.held_bytes
    assert held_bytes >= 100_000
    first.release()
    assert pool.held_bytes == held_bytes
    second.release()
    assert pool.held_bytes == 0


@settings(deadline=None)
@given(st.data())
def test_rows_are_given_back_exactly_when_nobody_is_left(data: st.DataObject) -> None:
    rows = CountedRows()
    holders = [Holding(rows)]
    while holders and len(holders) < 20:
        assert rows.release_count == 0
        chosen = data.draw(st.integers(0, len(holders) - 1))
        if data.draw(st.booleans()):
            holders.append(holders[chosen].share())
        else:
            holders.pop(chosen).release()
    for holding in holders:
        assert rows.release_count == 0
        holding.release()
    assert rows.release_count == 1


def test_threads_that_share_and_release_at_once_give_the_memory_back_once() -> None:
    thread_count, round_count = 8, 500
    rows = CountedRows()
    first = Holding(rows)
    start = threading.Barrier(thread_count + 1)
    own = [first.share() for _ in range(thread_count)]

    def churn(holding: Holding) -> None:
        start.wait(30)
        for _ in range(round_count):
            shared = holding.share()
            assert shared.rows is rows
            holding.release()
            holding = shared
        holding.release()

    threads = [threading.Thread(target=churn, args=(holding,)) for holding in own]
    for thread in threads:
        thread.start()
    start.wait(30)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert rows.release_count == 0
    first.release()
    assert rows.release_count == 1


def test_one_holding_that_many_threads_release_counts_once() -> None:
    for _ in range(50):
        rows = CountedRows()
        first = Holding(rows)
        second = first.share()
        start = threading.Barrier(4)

        def let_go(holding: Holding = second, start: threading.Barrier = start) -> None:
            start.wait(30)
            holding.release()

        threads = [threading.Thread(target=let_go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert rows.release_count == 0
        first.release()
        assert rows.release_count == 1
