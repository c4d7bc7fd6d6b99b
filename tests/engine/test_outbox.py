"""The outbox: events before results, results in turn or in order, and every ending is told what became of it."""

from __future__ import annotations

import asyncio

import pytest

from monopath_server.serving.outbox import Ending, Outbox


class Told:
    """Records what became of endings."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, bool]] = []

    def ending(self, item_id: int, count: int) -> Ending[str]:
        return Ending(
            (f"{item_id}.{n}" for n in range(count)), lambda written: self.outcomes.append((item_id, written))
        )


async def drain(outbox: Outbox[str]) -> list[str]:
    outbox.close()
    return [response async for response in outbox]


@pytest.mark.asyncio
async def test_results_take_turns_message_by_message() -> None:
    outbox, told = Outbox[str](as_sent=False), Told()
    outbox.put_ending(1, told.ending(1, 3))
    outbox.put_ending(2, told.ending(2, 2))
    assert await drain(outbox) == ["1.0", "2.0", "1.1", "2.1", "1.2"]
    assert sorted(told.outcomes) == [(1, True), (2, True)]


@pytest.mark.asyncio
async def test_results_come_in_the_order_of_their_items_where_that_was_asked_for() -> None:
    outbox, told = Outbox[str](as_sent=True), Told()
    for item_id in (1, 2, 3):
        outbox.expect(item_id)
    for item_id in (3, 1, 2):
        outbox.put_ending(item_id, told.ending(item_id, 2))
    assert await drain(outbox) == ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"]
    assert told.outcomes == [(1, True), (2, True), (3, True)]


@pytest.mark.asyncio
async def test_events_come_before_results() -> None:
    outbox, told = Outbox[str](as_sent=False), Told()
    outbox.put_ending(1, told.ending(1, 2))
    assert await anext(outbox) == "1.0"
    outbox.put_event("event")
    assert await drain(outbox) == ["event", "1.1"]


@pytest.mark.asyncio
async def test_a_reader_that_waits_is_woken() -> None:
    outbox = Outbox[str](as_sent=False)
    reading = asyncio.ensure_future(anext(outbox))
    await asyncio.sleep(0)
    outbox.put_event("event")
    assert await reading == "event"
    assert await drain(outbox) == []


@pytest.mark.asyncio
async def test_dropped_endings_are_told_so_once_wherever_they_wait() -> None:
    outbox, told = Outbox[str](as_sent=True), Told()
    for item_id in (1, 2, 3):
        outbox.expect(item_id)
    outbox.put_ending(1, told.ending(1, 2))
    outbox.put_ending(3, told.ending(3, 2))
    assert await anext(outbox) == "1.0"
    outbox.drop()
    outbox.drop()
    assert sorted(told.outcomes) == [(1, False), (3, False)]
