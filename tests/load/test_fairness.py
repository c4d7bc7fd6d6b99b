"""Streams take turns by the work they ask for; held by the order in which items are decoded, not by a clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from monopath.v1 import tensor_pb2
from monopath_server.engine import host
from monopath_server.engine.images import PlannedImage, decode_planned
from tests.stream.test_order import Gate
from tests.support.server import quick_settings
from tests.support.stream import make_config, make_item, raw_pixels, running_rig

LARGE = raw_pixels(bytes(150 * 150 * 3), 150, 150)
SMALL = raw_pixels(bytes(14 * 14 * 3), 14, 14)
LARGE_COUNT = 500
FIRST_SMALL_ID = 1001


class RecordingGate(Gate):
    """Also writes down which item was decoded when."""

    def __init__(self, held_ids: set[int]) -> None:
        super().__init__(held_ids)
        self.order: list[int] = []

    def __call__(self, planned: PlannedImage, *arguments: Any) -> Any:
        super().__call__(planned, *arguments)
        self.order.append(planned.item.id)
        return decode_planned(planned, *arguments)


@pytest.mark.parametrize("small_count", [1, 20])
@pytest.mark.asyncio
async def test_five_hundred_large_images_do_not_starve_a_stream_of_small_ones(
    small_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = RecordingGate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    settings = quick_settings(worker_count=1, max_unfinished_items=LARGE_COUNT, max_unfinished_bytes=1 << 40)
    async with running_rig(settings) as rig:
        large, small = (
            await rig.open(make_config(data_type=tensor_pb2.DATA_TYPE_UINT8)),
            await rig.open(make_config(data_type=tensor_pb2.DATA_TYPE_UINT8)),
        )
        reading = asyncio.create_task(large.read_until("completion", item_id=LARGE_COUNT))
        await large.send(*(make_item(item_id, LARGE) for item_id in range(1, LARGE_COUNT + 1)))
        await asyncio.to_thread(gate.reached.wait, 30)
        async with asyncio.timeout(30):
            while LARGE_COUNT not in large.outcomes:  # its plan: the last of the large ones waits for its turn
                await asyncio.sleep(0.01)
        small_ids = range(FIRST_SMALL_ID, FIRST_SMALL_ID + small_count)
        await small.send(*(make_item(item_id, SMALL) for item_id in small_ids))
        await small.read_until("plan", item_id=small_ids[-1])
        gate.open()
        await reading
        assert await small.finish() == "OK"
        assert await large.finish() == "OK"
    # Twenty small ones are less work than a single large one.
    assert set(gate.order[1 : 2 + small_count]) >= set(small_ids)
    assert sorted(gate.order) == [*range(1, LARGE_COUNT + 1), *small_ids]


@pytest.mark.asyncio
async def test_streams_of_equal_items_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = RecordingGate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=1)) as rig:
        streams = [await rig.open() for _ in range(3)]
        for index, stream in enumerate(streams):
            ids = range(1 + 100 * index, 11 + 100 * index)
            await stream.send(*(make_item(item_id, SMALL) for item_id in ids))
            await stream.read_until("plan", item_id=ids[-1])
        await asyncio.to_thread(gate.reached.wait, 30)
        gate.open()
        for stream in streams:
            assert await stream.finish() == "OK"
    # The first was alone when its turn came, so it is nobody's debt.
    owners = [item_id // 100 for item_id in gate.order[1:28]]
    for end in range(3, 28, 3):
        assert [owners[:end].count(owner) for owner in range(3)] == [end // 3] * 3
