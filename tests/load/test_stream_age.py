"""Old streams and draining servers: clients are asked to move, watches end, and no healthy stream is ended first."""

from __future__ import annotations

import asyncio

import pytest

from monopath.v1 import event_pb2
from monopath_server.serving.health import SERVICE_NAME
from tests.support.footprint import settle
from tests.support.health import watched_statuses
from tests.support.server import quick_settings
from tests.support.stream import Rig, encoded, make_item, photo, png, running_rig

SMALL = encoded(png(photo(50, 40)))


@pytest.mark.asyncio
async def test_an_old_stream_is_asked_to_move_once_and_serves_on_until_its_client_half_closes() -> None:
    settings = quick_settings(max_stream_age_seconds=0.05, stream_age_jitter=0.0)
    async with running_rig(settings) as rig:
        stream = await rig.open()
        goaway = await stream.read_until("goaway")
        assert goaway.reason == event_pb2.GOAWAY_REASON_STREAM_AGE
        # Several ages later it is as good as new.
        for item_id in range(1, 6):
            await asyncio.sleep(0.05)
            await stream.send(make_item(item_id, SMALL))
            await stream.read_until("completion", item_id=item_id)
        assert await stream.finish() == "OK"
        assert (await settle(rig.server)).is_idle
    assert [event.WhichOneof("payload") for event in stream.events].count("goaway") == 1


@pytest.mark.asyncio
async def test_streams_of_one_age_do_not_all_move_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked_for.append((low, high))
        return low

    monkeypatch.setattr("monopath_server.serving.session.random.uniform", uniform)
    async with running_rig(quick_settings(max_stream_age_seconds=0.1, stream_age_jitter=0.25)) as rig:
        stream = await rig.open()
        await stream.read_until("goaway")
        assert await stream.finish() == "OK"
    assert asked_for == [(0.75, 1.25)]


@pytest.mark.asyncio
async def test_a_stream_without_an_age_is_never_asked_to_move() -> None:
    async with running_rig(quick_settings(max_stream_age_seconds=0.0)) as rig:
        stream = await rig.run([make_item(item_id, SMALL) for item_id in range(1, 4)])
    assert "goaway" not in {event.WhichOneof("payload") for event in stream.events}


@pytest.mark.asyncio
async def test_a_draining_server_serves_a_live_stream_until_its_client_half_closes() -> None:
    async with running_rig(quick_settings(grace_seconds=20.0)) as rig:
        stream = await rig.open()
        stopping = asyncio.create_task(rig.server.stop())
        goaway = await stream.read_until("goaway")
        assert goaway.reason == event_pb2.GOAWAY_REASON_DRAINING
        for item_id in range(1, 6):
            await stream.send(make_item(item_id, SMALL))
            await stream.read_until("completion", item_id=item_id)
        assert not stopping.done()
        assert await stream.finish() == "OK"
        await stopping
    assert sorted(stream.ended_ids) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["", SERVICE_NAME])
@pytest.mark.asyncio
async def test_a_watch_ends_on_drain_and_its_last_word_is_not_serving(name: str) -> None:
    async with running_rig(quick_settings(grace_seconds=20.0)) as rig:
        told: list[str] = []
        watching = asyncio.create_task(_watch(rig, name, told))
        async with asyncio.timeout(10):
            while not told:
                await asyncio.sleep(0.01)
        # It does not hold the stop up: this ends long before the grace does.
        async with asyncio.timeout(10):
            await rig.server.stop()
            await watching
    assert told[0] == "SERVING"
    assert told[-1] == "NOT_SERVING"


async def _watch(rig: Rig, name: str, told: list[str]) -> None:
    async for status in watched_statuses(rig.channel, name):
        told.append(status)
