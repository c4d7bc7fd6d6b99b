"""The stream that all requests share: it comes back after its server, and no request sees another one's images."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.encoder.faults import Refused, Unavailable
from examples.encoder.lane import Lane
from examples.encoder.sources import EncodedImage
from examples.encoder.wire import RECONNECT_OPTIONS
from monopath import AsyncClient, AsyncStream, DeferredCpu, ImageInput
from tests.encoder.soak import picture
from tests.support.server import quick_settings, running_server

pytestmark = pytest.mark.asyncio
SIZES = [(20 + 5 * index, 100 - 5 * index) for index in range(12)]


def _sources() -> list[EncodedImage]:
    return [EncodedImage(picture(width_px, height_px, width_px)) for width_px, height_px in SIZES]


def _opened(
    client: AsyncClient, preset: str = "kimi-k3", **arguments: Any
) -> Callable[[], AsyncStream[DeferredCpu, ImageInput]]:
    return lambda: client.deferred_cpu(preset=preset, data_type="uint8", **arguments)


async def test_requests_at_the_same_time_get_their_own_results_in_their_order() -> None:
    sources = _sources()
    orders = [list(range(12)), [11, 3, 3, 0], [5], []]
    async with running_server() as address, AsyncClient(address) as client:
        lane = Lane(_opened(client))
        found = await asyncio.gather(*(lane.results([sources[place] for place in order]) for order in orders))
        for order, results in zip(orders, found, strict=True):
            sizes = [result.plan.original_size for result in results]
            assert [(size.width_px, size.height_px) for size in sizes] == [SIZES[place] for place in order]
        await lane.close()


async def test_a_request_that_is_given_up_takes_nothing_from_the_next_one() -> None:
    sources = _sources()
    async with running_server() as address, AsyncClient(address) as client:
        lane = Lane(_opened(client, max_unfinished_items=1))
        given_up = asyncio.create_task(lane.results(sources))
        await asyncio.sleep(0)
        given_up.cancel()
        (result,) = await lane.results([sources[4]])
        assert given_up.cancelled()
        assert (result.plan.original_size.width_px, result.plan.original_size.height_px) == SIZES[4]
        await lane.close()


async def test_a_lane_without_a_server_says_so_and_works_when_there_is_one(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'server'}"
    async with AsyncClient(address, options=RECONNECT_OPTIONS) as client:
        lane = Lane(_opened(client))
        with pytest.raises(Unavailable):
            await lane.results(_sources())
        async with running_server(quick_settings(address=address)):
            async with asyncio.timeout(30):
                while True:
                    try:
                        results = await lane.results(_sources())
                        break
                    except Unavailable:
                        await asyncio.sleep(0.05)
            assert all(result.ok for result in results)
            await lane.close()


async def test_a_config_that_the_server_refuses_is_not_asked_for_again() -> None:
    async with running_server() as address, AsyncClient(address) as client:
        lane = Lane(_opened(client, preset="nobody's"))
        with pytest.raises(Refused, match="nobody's"):
            await lane.results(_sources())


async def test_requests_of_a_lane_that_is_closed_fail() -> None:
    async with running_server() as address, AsyncClient(address) as client:
        lane = Lane(_opened(client))
        waiting = asyncio.create_task(lane.results(_sources()))
        await asyncio.sleep(0)
        await lane.close()
        with pytest.raises(Unavailable, match="closed"):
            await waiting
