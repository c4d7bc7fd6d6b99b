"""Leases of shared memory on real streams: released, run out, or ended with their stream."""

from __future__ import annotations

import numpy as np
import pytest

from monopath_server.delivery import sweeper
from tests.stream.shared_rig import finished, serve_others, shared_rig
from tests.support.footprint import until
from tests.support.segments import MappedSegment, segment_names
from tests.support.stream import encoded, make_config, make_item, photo, png, raw_pixels

SMALL = photo(50, 40)


@pytest.mark.asyncio
async def test_released_memory_is_used_again_in_a_larger_generation() -> None:
    async with shared_rig() as rig:
        stream = await rig.open_shared()
        mapped: list[MappedSegment] = []
        for item_id in (1, 2, 3):
            await stream.send(make_item(item_id, encoded(png(photo(50, 40, item_id)))))
            await stream.read_until("completion", item_id)
            found = stream.outcomes[item_id].mapped
            assert found is not None
            mapped.append(found)
            assert rig.lease_count == 1
            await stream.release(item_id)
            await until(lambda: rig.lease_count == 0, "the release")
        await finished(stream)
    assert len({each.handle.name for each in mapped}) == 1
    generations = [each.handle.generation for each in mapped]
    assert generations == sorted(set(generations))
    # An early reader sees that its memory went to somebody else.
    assert mapped[0].generation == generations[-1]


@pytest.mark.asyncio
async def test_releasing_before_the_features_or_twice_or_inline_items_does_no_harm() -> None:
    item = encoded(png(SMALL))
    async with shared_rig() as rig:
        stream = await rig.open_shared()
        await stream.send(make_item(1, item))
        await stream.release(1, 1)
        await stream.read_until("completion", 1)
        await stream.release(1, 1)
        await stream.send(make_item(2, item))
        await finished(stream)
        inline = await rig.open()
        await inline.send(make_item(1, item))
        await inline.release(1)
        await finished(inline)
    assert bytes(stream.outcomes[2].data) == bytes(inline.outcomes[1].data)


@pytest.mark.asyncio
async def test_bytes_of_a_lease_that_ran_out_stay_what_they_were() -> None:
    async with shared_rig(lease_timeout_seconds=0.1) as rig:
        stream = await rig.open_shared()
        await stream.send(make_item(1, encoded(png(SMALL))))
        await stream.read_until("completion", 1)
        late = stream.outcomes[1].mapped
        assert late is not None
        before = bytes(stream.outcomes[1].data)
        await until(lambda: rig.lease_count == 0, "the end of the lease")
        assert late.handle.name not in await serve_others(rig, 200)
        assert (late.data, late.generation) == (before, late.handle.generation)
        await stream.release(1)  # too late, and harmless
        assert late.handle.name not in await serve_others(rig, 20)
        await finished(stream)
        assert (late.data, late.generation) == (before, late.handle.generation)


@pytest.mark.asyncio
async def test_bytes_of_a_stream_that_has_ended_stay_what_they_were() -> None:
    async with shared_rig() as rig:
        stream = await rig.run(
            [make_item(item_id, encoded(png(photo(50, 40, item_id)))) for item_id in range(1, 9)], rig.config()
        )
        await until(lambda: rig.lease_count == 0, "the end of all leases")
        assert rig.pool.held_bytes == 0
        names = await serve_others(rig, 300)
        for outcome in stream.outcomes.values():
            late = outcome.mapped
            assert late is not None
            assert late.handle.name not in names
            assert (late.data, late.generation) == (bytes(outcome.data), late.handle.generation)
    # The server is gone, and its names with it.
    assert all(
        outcome.mapped is not None and outcome.mapped.data == outcome.data for outcome in stream.outcomes.values()
    )


@pytest.mark.asyncio
async def test_a_client_that_reads_late_still_finds_every_handle() -> None:
    """A stream is over for the server as soon as its last message is on the way; a client half-closes when it likes."""
    async with shared_rig() as rig:
        stream = await rig.open_shared()
        await stream.send(*(make_item(item_id, encoded(png(photo(50, 40, item_id)))) for item_id in range(1, 31)))
        await stream.half_close()
        await until(lambda: not rig.server._servicer._sessions, "the end of the stream at the server")
        assert await stream.finish(half_close=False) == "OK"
        assert all(outcome.mapped is not None for outcome in stream.outcomes.values())
        assert len(stream.outcomes) == 30


@pytest.mark.asyncio
async def test_names_of_retired_memory_are_taken_away_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "LATE_HANDLE_SECONDS", 0.1)
    async with shared_rig() as rig:
        stream = await rig.run([make_item(item_id, encoded(png(SMALL))) for item_id in range(1, 5)], rig.config())
        names = {outcome.mapped.handle.name for outcome in stream.outcomes.values() if outcome.mapped is not None}
        assert len(names) == 4
        await until(lambda: not names & segment_names(rig.directory), "the end of all names")
        assert rig.pool.retired_bytes == 0


@pytest.mark.asyncio
async def test_a_server_that_stops_leaves_mapped_bytes_as_they_are_and_no_file() -> None:
    async with shared_rig() as rig:
        stream = await rig.open_shared()
        await stream.send(*(make_item(item_id, encoded(png(photo(50, 40, item_id)))) for item_id in range(1, 9)))
        for item_id in range(1, 9):
            if stream.outcomes.get(item_id) is None or stream.outcomes[item_id].completion is None:
                await stream.read_until("completion", item_id)
        directory, memory = rig.directory, rig.memory
        stopped = rig.server.stop()
        await stream.half_close()
        await stopped
        assert segment_names(directory) == {memory.probe.name}
        for outcome in stream.outcomes.values():
            assert outcome.mapped is not None
            assert outcome.mapped.data == bytes(outcome.data)


@pytest.mark.asyncio
async def test_clients_that_never_release_make_later_items_travel_in_chunks_and_nobody_wait() -> None:
    pixels = np.zeros((300, 300, 3), np.uint8)
    async with shared_rig(max_shared_memory_bytes=4 << 20) as rig:
        hoarder = await rig.open_shared()
        count = 0
        while not hoarder.outcomes or hoarder.outcomes[count].mapped is not None:
            count += 1
            await hoarder.send(make_item(count, raw_pixels(pixels.tobytes(), 300, 300)))
            await hoarder.read_until("completion", count)
        assert count > 2
        other = await rig.run([make_item(1, raw_pixels(pixels.tobytes(), 300, 300))], rig.config())
        assert other.outcomes[1].mapped is None
        inline = await rig.run([make_item(1, raw_pixels(pixels.tobytes(), 300, 300))], make_config())
        assert bytes(other.outcomes[1].data) == bytes(inline.outcomes[1].data) == bytes(hoarder.outcomes[1].data)
        await hoarder.release(1)
        await until(lambda: rig.lease_count == count - 2, "the release")
        other = await rig.run([make_item(1, raw_pixels(pixels.tobytes(), 300, 300))], rig.config())
        assert other.outcomes[1].mapped is not None
        await finished(hoarder)
        assert hoarder.summary is not None
        assert hoarder.summary.fallback_count == 1
