"""Case 2: images that declare more than the server takes are refused from their header, and nobody pays for them."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from tests.support.case_inputs import case_inputs
from tests.support.footprint import forget_peak, peak_rss_bytes, rss_bytes
from tests.support.processes import serving
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png

HUGE = {
    "bomb_20000.png": (20_000, 20_000),
    "jpeg_header_65500.jpg": (65_500, 65_500),
    "jpeg_header_9000.jpg": (9_000, 9_000),
    "big_ok_14000_gray.png": (14_000, 14_000),
    "webp_canvas_16383.webp": (16_383, 16_383),
}
MOST_PIXELS = 64 * 1024 * 1024
GOOD = encoded(png(photo(50, 40)))
STREAM_COUNT = 32
MOST_GROWTH_BYTES = 64_000_000


async def stream_of_huge_images(channel: grpc.aio.Channel) -> RawStream:
    """Each huge image between two good ones."""
    stream = RawStream(channel, "deferred_cpu")
    await stream.send(make_config())
    await stream.read_until("ready")
    reading = asyncio.create_task(_read_all(stream))
    await stream.send(make_item(1, GOOD))
    for index, name in enumerate(HUGE, 1):
        await stream.send(make_item(2 * index, encoded(case_inputs()[name]), label=name))
        await stream.send(make_item(2 * index + 1, GOOD))
    await stream.half_close()
    await reading
    assert await stream.finish(half_close=False) == "OK"
    return stream


async def _read_all(stream: RawStream) -> None:
    while await stream.read() is not None:
        pass


@pytest.mark.asyncio
async def test_huge_images_are_item_errors_with_both_numbers_and_cost_no_memory() -> None:
    with serving("--address", "127.0.0.1:0", "--cuda", "off", "--cache-bytes", "0") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            alone = await stream_of_huge_images(channel)
            before_bytes = rss_bytes(server.pid)
            forget_peak(server.pid)
            streams = [alone]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(stream_of_huge_images(channel)) for _ in range(STREAM_COUNT)]
            streams += [task.result() for task in tasks]
            growth_bytes = peak_rss_bytes(server.pid) - before_bytes
        assert server.stop().stderr == ""
    good = {stream.outcomes[item_id].sha256 for stream in streams for item_id in range(1, 2 * len(HUGE) + 2, 2)}
    assert good == {alone.outcomes[1].sha256}
    for stream in streams:
        for index, (width_px, height_px) in enumerate(HUGE.values(), 1):
            error = stream.outcomes[2 * index].error
            assert stream.outcomes[2 * index].reason == "IMAGE_TOO_LARGE"
            assert error is not None
            assert str(MOST_PIXELS) in error.message
            assert str(width_px) in error.message
            assert str(height_px) in error.message
    assert growth_bytes < MOST_GROWTH_BYTES
