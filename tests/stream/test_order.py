"""Plans come before pixels are decoded, ends in the order that was asked for, and one slow item holds up no other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from monopath_server.engine import host
from monopath_server.engine.images import PlannedImage, decode_planned
from tests.support.server import quick_settings
from tests.support.stream import encoded, make_config, make_item, photo, png, running_rig

SMALL = encoded(png(photo(50, 40)))


class Gate:
    """Holds the decoding of chosen items until the test opens it."""

    def __init__(self, held_ids: set[int]) -> None:
        self._held_ids = held_ids
        self._opened = threading.Event()
        self.reached = threading.Event()

    def __call__(self, planned: PlannedImage, *arguments: Any) -> Any:
        if planned.item.id in self._held_ids:
            self.reached.set()
            assert self._opened.wait(timeout=30)
        return decode_planned(planned, *arguments)

    def open(self) -> None:
        self._opened.set()


@pytest.mark.asyncio
async def test_plans_leave_before_the_pixels_of_their_item_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1, 2, 3})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=1)) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, SMALL) for item_id in (1, 2, 3)))
        for _ in range(3):
            await stream.read_until("plan")
        assert all(not outcome.data for outcome in stream.outcomes.values())
        gate.open()
        assert await stream.finish() == "OK"
    assert all(outcome.completion is not None for outcome in stream.outcomes.values())


@pytest.mark.asyncio
async def test_items_end_as_they_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=2)) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, SMALL) for item_id in (1, 2, 3)))
        await stream.read_until("completion")
        await stream.read_until("completion")
        gate.open()
        assert await stream.finish() == "OK"
    assert stream.ended_ids[-1] == 1
    assert sorted(stream.ended_ids) == [1, 2, 3]


@pytest.mark.asyncio
async def test_items_end_as_they_were_sent_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=2)) as rig:
        stream = await rig.open(make_config(as_sent=True, chunk_bytes=4096))
        bad = make_item(3, encoded(b"not an image"))
        await stream.send(make_item(1, SMALL), make_item(2, SMALL), bad, make_item(4, SMALL))
        await asyncio.to_thread(gate.reached.wait, 30)
        gate.open()
        assert await stream.finish() == "OK"
    assert stream.ended_ids == [1, 2, 3, 4]
    assert stream.outcomes[3].reason == "IMAGE_UNSUPPORTED"


@pytest.mark.asyncio
async def test_a_slow_item_of_one_stream_holds_up_no_other_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({100})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=2)) as rig:
        slow = await rig.open()
        await slow.send(make_item(100, SMALL))
        await asyncio.to_thread(gate.reached.wait, 30)
        quick = await rig.run([make_item(item_id, SMALL) for item_id in range(1, 6)])
        assert len(quick.ended_ids) == 5
        gate.open()
        assert await slow.finish() == "OK"


@pytest.mark.asyncio
async def test_the_server_stops_reading_at_its_limit_of_unfinished_items(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(set(range(1, 100)))
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=1, max_unfinished_items=3)) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, SMALL) for item_id in range(1, 11)))
        for _ in range(3):
            await stream.read_until("plan")
        # Nothing more can come while the gate is shut: the fourth item was not even read.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(reading := asyncio.ensure_future(stream.read())), timeout=0.2)
        gate.open()
        await reading
        assert await stream.finish() == "OK"
    assert len(stream.ended_ids) == 10
