"""Replicas that go while items flow through a proxy: restarted one after another, or killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monopath import AsyncClient, Item, RawImage, Result
from tests.clients.drivers import ARGUMENTS
from tests.proxies.proxies import Ports, ProxyKind, free_ports, running_proxy
from tests.support.footprint import until
from tests.support.processes import Finished, ServerProcess, serving

PIXELS = np.random.default_rng(9).integers(0, 256, (160, 400, 3), dtype=np.uint8)
IMAGE_COUNT = 60
STREAM_COUNT = 4


def _image(index: int) -> Item:
    """Each of its own size, so that a result shows whose it is."""
    height = 100 + index % IMAGE_COUNT
    return Item(RawImage(PIXELS[:height], "RGB8"), label=str(height))


class Replicas:
    """Two servers, each at an address of its own that its successor takes over."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        """Start both; they end with the stack."""
        first, second = free_ports(2)
        self.ports = (first, second)
        self._stack = stack
        with futures.ThreadPoolExecutor(2) as pool:
            self._servers = list(pool.map(self._start, self.ports))

    async def restart(self, index: int) -> Finished:
        """End one with SIGTERM, and start its successor. Returns what became of the first."""
        finished = await asyncio.to_thread(self._servers[index].stop)
        self._servers[index] = await asyncio.to_thread(self._start, self.ports[index])
        return finished

    def kill(self, index: int) -> None:
        """End one with SIGKILL."""
        self._servers[index].send_signal(signal.SIGKILL)
        self._servers[index].wait()

    def revive(self, index: int) -> None:
        """Start one again that was killed."""
        self._servers[index] = self._start(self.ports[index])

    def _start(self, port: int) -> ServerProcess:
        arguments = ("--address", f"127.0.0.1:{port}", "--cuda", "off", "--workers", "1", "--grace", "20")
        return self._stack.enter_context(serving(*arguments))


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    """Two running servers for all tests of this module: each start takes seconds."""
    with contextlib.ExitStack() as stack:
        yield Replicas(stack)


class Load:
    """Items over several streams of one client, until it is told that it is enough."""

    def __init__(self, address: str) -> None:
        self.results: list[Result[Any]] = []
        self._enough = False
        self._task = asyncio.create_task(self._run(address))

    async def flow(self, count: int) -> None:
        """Wait until so many more results have come. Raises what ended the load before."""
        goal = len(self.results) + count
        await until(lambda: self._task.done() or len(self.results) >= goal, f"{goal} results")
        if self._task.done():
            await self._task
            raise AssertionError(f"Expected {goal} results, got {len(self.results)} and the end")

    async def finish(self) -> None:
        """Send no more, and wait for what is under way."""
        self._enough = True
        await self._task

    def check_all_once(self) -> None:
        """Each item has one result, and it is of its own image."""
        assert sorted(result.id for result in self.results) == list(range(1, len(self.results) + 1))
        for result in self.results:
            result.raise_for_error()
            assert str(result.plan.original_size.height_px) == result.label == _image(result.id - 1).label

    async def _run(self, address: str) -> None:
        def images() -> Iterator[Item]:
            for index in itertools.count():
                if self._enough:
                    return
                yield _image(index)

        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            async for result in stream.map(images(), streams=STREAM_COUNT):
                self.results.append(result)


@pytest.mark.asyncio
async def test_a_rolling_restart_loses_and_repeats_nothing(kind: ProxyKind, replicas: Replicas, tmp_path: Path) -> None:
    async with running_proxy(kind, Ports.free(replicas.ports), tmp_path) as proxy:
        load = Load(proxy.address)
        await load.flow(50)
        for index in (0, 1):
            assert (await replicas.restart(index)).exit_code == 0
            await load.flow(50)
        await load.finish()
        load.check_all_once()


@pytest.mark.asyncio
async def test_a_killed_replica_costs_no_result(kind: ProxyKind, replicas: Replicas, tmp_path: Path) -> None:
    try:
        async with running_proxy(kind, Ports.free(replicas.ports), tmp_path) as proxy:
            load = Load(proxy.address)
            await load.flow(50)
            await asyncio.to_thread(replicas.kill, 0)
            await load.flow(100)
            await load.finish()
            load.check_all_once()
    finally:
        await asyncio.to_thread(replicas.revive, 0)
