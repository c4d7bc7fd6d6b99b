"""Leases: what ends one, and which of those ends lets the memory be used for something else."""

from __future__ import annotations

import asyncio

import pytest

from monopath_server.delivery.leases import Leases
from monopath_server.engine.rows import Holding
from tests.support.footprint import until

LONG_SECONDS = 3600.0
SHORT_SECONDS = 0.02


class FakeRows:
    """Rows that remember what was done to them."""

    size_bytes = 7

    def __init__(self) -> None:
        self.is_retired = False
        self.release_count = 0
        self.was_retired_before_its_release = False

    def retire(self) -> None:
        self.is_retired = True

    def release(self) -> None:
        self.release_count += 1
        self.was_retired_before_its_release = self.is_retired


def lease(leases: Leases, item_id: int) -> FakeRows:
    """Lease new rows, and let go of them as a stream does once their handle is written."""
    rows = FakeRows()
    holding = Holding(rows)
    leases.add(item_id, rows, holding.share())
    holding.release()
    return rows


@pytest.mark.asyncio
async def test_a_lease_holds_its_rows_until_their_release_and_then_they_are_free_for_others() -> None:
    leases = Leases(LONG_SECONDS)
    first, second = lease(leases, 1), lease(leases, 2)
    assert first.release_count == 0
    leases.release(1)
    assert (first.release_count, first.is_retired) == (1, False)
    assert (second.release_count, second.is_retired) == (0, False)
    assert len(leases) == 1
    leases.close()


@pytest.mark.asyncio
async def test_releasing_twice_or_what_was_never_leased_does_nothing() -> None:
    changes: list[tuple[int, int]] = []
    leases = Leases(LONG_SECONDS, lambda *change: changes.append(change))
    rows = lease(leases, 1)
    for item_id in (1, 1, 99):
        leases.release(item_id)
    assert rows.release_count == 1
    assert changes == [(1, 7), (-1, -7)]


@pytest.mark.asyncio
async def test_the_end_of_the_stream_retires_what_was_not_released() -> None:
    changes: list[tuple[int, int]] = []
    timeouts: list[str] = []
    leases = Leases(LONG_SECONDS, lambda *change: changes.append(change), lambda: timeouts.append("out"))
    released, kept = lease(leases, 1), lease(leases, 2)
    leases.release(1)
    leases.close()
    leases.close()
    assert not released.is_retired
    assert (kept.release_count, kept.was_retired_before_its_release) == (1, True)
    assert len(leases) == 0
    assert changes == [(1, 7), (1, 7), (-1, -7), (-1, -7)]
    assert timeouts == []


@pytest.mark.asyncio
async def test_a_lease_runs_out_by_itself_and_retires_its_rows() -> None:
    changes: list[tuple[int, int]] = []
    timeouts: list[str] = []
    leases = Leases(SHORT_SECONDS, lambda *change: changes.append(change), lambda: timeouts.append("out"))
    rows = lease(leases, 1)
    await until(lambda: rows.release_count > 0, "the end of the lease")
    assert (rows.release_count, rows.was_retired_before_its_release) == (1, True)
    leases.release(1)
    leases.close()
    assert rows.release_count == 1
    assert changes == [(1, 7), (-1, -7)]
    assert timeouts == ["out"]


@pytest.mark.asyncio
async def test_a_released_lease_does_not_run_out() -> None:
    leases = Leases(SHORT_SECONDS)
    released = lease(leases, 1)
    leases.release(1)
    later = lease(leases, 2)
    await until(lambda: later.release_count > 0, "the end of the later lease")
    assert not released.is_retired


@pytest.mark.asyncio
async def test_rows_that_others_hold_too_outlive_the_lease_and_stay_retired() -> None:
    leases = Leases(LONG_SECONDS)
    rows = FakeRows()
    cached = Holding(rows)
    leases.add(1, rows, cached.share())
    leases.close()
    assert (rows.release_count, rows.is_retired) == (0, True)
    cached.release()
    assert (rows.release_count, rows.was_retired_before_its_release) == (1, True)


@pytest.mark.asyncio
async def test_one_stream_that_releases_shared_rows_frees_them_for_nobody() -> None:
    first, second = Leases(LONG_SECONDS), Leases(LONG_SECONDS)
    rows = FakeRows()
    holding = Holding(rows)
    first.add(1, rows, holding.share())
    second.add(1, rows, holding.share())
    holding.release()
    first.release(1)
    assert rows.release_count == 0
    second.close()
    assert (rows.release_count, rows.was_retired_before_its_release) == (1, True)


@pytest.mark.asyncio
async def test_no_timer_is_left_behind() -> None:
    leases = Leases(LONG_SECONDS)
    for item_id in range(1, 101):
        lease(leases, item_id)
    for item_id in range(1, 51):
        leases.release(item_id)
    leases.close()
    loop = asyncio.get_running_loop()
    scheduled = [timer for timer in getattr(loop, "_scheduled", []) if not timer.cancelled()]
    assert scheduled == []
