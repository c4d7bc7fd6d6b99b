"""A directory for shared memory with very little room, as containers have: items go in chunks, and nobody crashes."""

from __future__ import annotations

import gc
import logging
from pathlib import Path

import pytest

from tests.stream.shared_rig import finished, shared_rig
from tests.support.footprint import settle, until
from tests.support.server import quick_settings
from tests.support.stream import RawStream, make_item, photo, raw_pixels, running_rig
from tests.support.tmpfs import mounted_tmpfs

SIDE_PX = 280
IMAGES = [raw_pixels(photo(SIDE_PX, SIDE_PX, seed).tobytes(), SIDE_PX, SIDE_PX) for seed in range(12)]
"""Each gives 940 KB of features: four do not fit 4 MiB."""


def handle_count(stream: RawStream) -> int:
    return sum(outcome.mapped is not None for outcome in stream.outcomes.values())


@pytest.mark.asyncio
async def test_where_the_directory_is_full_items_travel_in_chunks_until_memory_is_released(tmp_path: Path) -> None:
    requests = [make_item(item_id, image) for item_id, image in enumerate(IMAGES, 1)]
    with mounted_tmpfs(tmp_path, "4m") as small:
        async with shared_rig(small) as rig:
            inline = await rig.run(requests)
            stream = await rig.open_shared()
            await stream.send(*requests)
            for request in requests:
                if stream.outcomes.get(request.item.id) is None or stream.outcomes[request.item.id].completion is None:
                    await stream.read_until("completion", request.item.id)
            leased = [item_id for item_id, outcome in stream.outcomes.items() if outcome.mapped is not None]
            assert 1 <= len(leased) <= 3
            assert rig.lease_count == len(leased)
            for item_id, outcome in stream.outcomes.items():
                assert bytes(outcome.data) == bytes(inline.outcomes[item_id].data)
                assert outcome.mapped is None or outcome.mapped.data == bytes(outcome.data)
            await stream.release(*leased)
            await until(lambda: rig.lease_count == 0, "the releases")
            # There is room again.
            await stream.send(make_item(100, IMAGES[0]))
            await finished(stream)
            assert stream.outcomes[100].mapped is not None
            assert bytes(stream.outcomes[100].data) == bytes(stream.outcomes[1].data)
            assert stream.summary is not None
            assert stream.summary.fallback_count == len(requests) - len(leased)
            assert (await settle(rig.server)).is_idle


@pytest.mark.asyncio
async def test_streams_that_end_without_a_release_do_not_use_the_directory_up(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path, "4m") as small:
        async with shared_rig(small) as rig:
            for index in range(8):
                stream = await rig.run(
                    [make_item(1, IMAGES[index]), make_item(2, IMAGES[index + 1])], rig.config(as_sent=True)
                )
                await until(lambda: rig.lease_count == 0, "the end of the leases")
                assert handle_count(stream) == 2
                # What this client has mapped takes its room until it lets go of it.
                del stream
                gc.collect()


@pytest.mark.asyncio
async def test_cached_features_give_their_room_up_where_the_directory_is_full(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path, "4m") as small:
        async with shared_rig(small, cache_bytes=64 << 20) as rig:
            stream = await rig.open_shared()
            for item_id, image in enumerate(IMAGES, 1):
                await stream.send(make_item(item_id, image))
                await stream.read_until("completion", item_id)
                assert stream.outcomes[item_id].mapped is not None
                stream.outcomes[item_id].mapped = None
                await stream.release(item_id)
                await until(lambda: rig.lease_count == 0, "the release")
            await finished(stream)
            assert stream.summary is not None
            assert stream.summary.fallback_count == 0


@pytest.mark.asyncio
async def test_a_directory_without_any_room_for_a_client_is_an_opening_that_fails_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server itself finds no room for its probe: it says so, and serves inline."""
    caplog.set_level(logging.WARNING)
    with mounted_tmpfs(tmp_path, "4k") as tiny:
        (tiny / "full").write_bytes(bytes(4096))
        async with running_rig(quick_settings(shared_memory_directory=tiny)) as rig:
            assert rig.server.engines.shared_memory is None
            assert "cannot use its directory" in rig.server.engines.shared_memory_missing
            await rig.run([make_item(1, IMAGES[0])])
        assert [path.name for path in tiny.iterdir()] == ["full"]
    assert "No space left" in caplog.text
