"""A fleet of real servers: a request of 512 images over three of them, the same bytes as from one."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monopath import AsyncClient, AsyncFleet, Client, Fleet, Item, RawImage, Result
from tests.clients.drivers import ARGUMENTS, KINDS
from tests.support.processes import ServerProcess, serving

COUNT = 512
PIXELS = np.random.default_rng(10).integers(0, 256, (48 + COUNT, 40, 3), dtype=np.uint8)


def _images() -> list[Item]:
    """Small ones, each with pixels of its own."""
    return [Item(RawImage(PIXELS[at : at + 33 + at % 15], "RGB8"), label=str(at)) for at in range(COUNT)]


def _serving(address: str, folder: Path) -> contextlib.AbstractContextManager[ServerProcess]:
    return serving("--address", address, "--cuda", "off", "--workers", "1", "--shared-memory-dir", folder)


@pytest.fixture(scope="module")
def survivors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of two servers that stay: one on a unix socket, one on a port."""
    folder = tmp_path_factory.mktemp("survivors")
    with _serving(f"unix:{folder / 'socket'}", folder) as first, _serving("127.0.0.1:0", folder) as second:
        yield [first.address, second.address]


@pytest.fixture(scope="module")
def expected(survivors: list[str]) -> list[str]:
    """The digests of the features as one server makes them, over one stream."""
    with Client(survivors[0]) as client, client.deferred_cpu(**ARGUMENTS, order="as_sent") as stream:
        return [result.sha256() for result in stream.map(_images())]


def _fleet_map(kind: str, addresses: list[str], folder: Path, take: Callable[[Result[Any]], None], order: str) -> None:
    """Over shared memory to the first, which is near, and inline to the others."""
    transports = ["shared_memory", "inline", "inline"]

    def streams(clients: list[Any]) -> list[Any]:
        return [
            client.deferred_cpu(**ARGUMENTS, transport=transport, order=order)
            for client, transport in zip(clients, transports, strict=True)
        ]

    def run_sync() -> None:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(one, shared_memory_directory=folder)) for one in addresses]
            for result in Fleet(streams(clients)).map(_images()):
                take(result)

    async def run_async() -> None:
        async with contextlib.AsyncExitStack() as stack:
            opening = (AsyncClient(one, shared_memory_directory=folder) for one in addresses)
            clients = [await stack.enter_async_context(client) for client in opening]
            async for result in AsyncFleet(streams(clients)).map(_images()):
                take(result)

    if kind == "sync":
        run_sync()
    else:
        asyncio.run(asyncio.wait_for(run_async(), 90))


@KINDS
def test_a_server_killed_in_the_middle_of_512_images_costs_none(
    kind: str, survivors: list[str], expected: list[str], tmp_path: Path
) -> None:
    order = "as_completed" if kind == "sync" else "as_sent"
    seen: list[tuple[int, str, str]] = []

    def take(result: Result[Any]) -> None:
        with result:
            seen.append((result.id, result.label, result.sha256()))
        if len(seen) == COUNT // 4:
            victim.send_signal(signal.SIGKILL)

    with _serving(f"unix:{tmp_path / 'socket'}", tmp_path) as victim:
        _fleet_map(kind, [victim.address, *survivors], tmp_path, take, order)
    assert order == "as_completed" or seen == sorted(seen)
    assert sorted(seen) == [(at + 1, str(at), expected[at]) for at in range(COUNT)]
