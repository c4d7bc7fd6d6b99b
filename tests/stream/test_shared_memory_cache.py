"""Cached features and shared memory: shared by streams of both kinds, given up for room, never lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from monopath.v1 import event_pb2, service_pb2
from monopath_server.delivery.deliveries import SegmentDelivery
from tests.stream.shared_rig import finished, serve_others, shared_rig
from tests.support.footprint import until
from tests.support.stream import encoded, make_item, photo, png, raw_pixels

SMALL = photo(50, 40)


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.asyncio
async def test_cached_features_that_are_being_moved_into_shared_memory_are_not_lost(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inline stream made them; a cancellation comes while a worker copies them for a stream over shared memory."""
    real = SegmentDelivery._copy
    may_go_on, reached = threading.Event(), threading.Event()

    def copy(delivery: SegmentDelivery, rows: Any) -> Any:
        copied = real(delivery, rows)
        reached.set()
        assert may_go_on.wait(30)
        return copied

    monkeypatch.setattr(SegmentDelivery, "_copy", copy)
    item = encoded(png(SMALL))
    async with shared_rig(cache_bytes=64 << 20) as rig:
        inline = await rig.run([make_item(1, item)])
        stream = await rig.open_shared()
        await stream.send(make_item(1, item))
        assert await asyncio.to_thread(reached.wait, 30)
        if is_cancelled:
            await stream.send(service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=1)))
            await stream.read_until("error", 1)
        may_go_on.set()
        await finished(stream)
        if not is_cancelled:
            assert stream.outcomes[1].mapped is not None
            assert stream.outcomes[1].completion.cache == event_pb2.CACHE_OUTCOME_HIT
            assert bytes(stream.outcomes[1].data) == bytes(inline.outcomes[1].data)
            # The cache keeps the copy from now on, and not what it was made of.
            await until(lambda: rig.server.engines.buffers.held_bytes == 0, "the end of the first rows")
        else:
            await until(lambda: rig.pool.held_bytes == 0, "the end of the copy")


@pytest.mark.asyncio
async def test_cached_features_are_shared_by_streams_of_both_kinds() -> None:
    item = encoded(png(SMALL))
    async with shared_rig(cache_bytes=64 << 20) as rig:
        first, second = await rig.open_shared(), await rig.open_shared()
        for stream in (first, second):
            await stream.send(make_item(1, item))
            await stream.read_until("completion", 1)
        inline = await rig.run([make_item(1, item)])
        handles = [stream.outcomes[1].mapped for stream in (first, second)]
        assert handles[0] is not None
        assert handles[1] is not None
        assert handles[0].handle == handles[1].handle  # one memory for both, which neither may write to
        assert rig.lease_count == 2
        await first.release(1)
        await until(lambda: rig.lease_count == 1, "the release")
        # The cache and the other client still hold it: no other item gets it.
        await first.send(*(make_item(item_id, encoded(png(photo(50, 40, item_id)))) for item_id in range(2, 30)))
        await finished(first)
        await finished(second)
        names = {outcome.mapped.handle.name for outcome in first.outcomes.values() if outcome.mapped is not None}
        assert len(names) == 29
        assert handles[1].data == bytes(inline.outcomes[1].data) == bytes(first.outcomes[1].data)
        assert inline.outcomes[1].completion.cache == event_pb2.CACHE_OUTCOME_HIT


@pytest.mark.asyncio
async def test_memory_that_a_lost_client_may_still_read_leaves_the_cache_without_coming_back() -> None:
    item = encoded(png(SMALL))
    async with shared_rig(cache_bytes=200 << 10) as rig:  # three entries
        stream = await rig.run([make_item(1, item)], rig.config())
        late = stream.outcomes[1].mapped
        assert late is not None
        again = await rig.run([make_item(1, item)], rig.config())
        assert again.outcomes[1].mapped is not None
        assert again.outcomes[1].mapped.handle == late.handle  # as long as it is cached
        assert late.handle.name not in await serve_others(rig, 60)
        assert (late.data, late.generation) == (bytes(stream.outcomes[1].data), late.handle.generation)


@pytest.mark.asyncio
async def test_the_cache_gives_shared_memory_up_before_items_travel_in_chunks() -> None:
    image_bytes = 300 * 300 * 3
    images = [raw_pixels(bytes([index]) * image_bytes, 300, 300) for index in range(24)]
    async with shared_rig(cache_bytes=64 << 20, max_shared_memory_bytes=8 << 20) as rig:
        stream = await rig.open_shared()
        for item_id, image in enumerate(images, 1):
            await stream.send(make_item(item_id, image))
            await stream.read_until("completion", item_id)
            await stream.release(item_id)
        await finished(stream)
        assert stream.summary is not None
        assert stream.summary.fallback_count == 0
        assert all(outcome.mapped is not None for outcome in stream.outcomes.values())
        assert rig.pool.held_bytes <= 8 << 20
