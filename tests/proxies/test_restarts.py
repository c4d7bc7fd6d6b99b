"""Replicas that go while items flow through a proxy: restarted one after another, or killed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import urllib.request
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest

from monopath import AsyncClient
from tests.proxies.proxies import ENVOY, Ports, ProxyKind, running_proxy
from tests.support.item_flow import ItemFlow
from tests.support.ports import free_ports
from tests.support.processes import Finished, ServerProcess, serving


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

    @contextlib.contextmanager
    def frozen(self, index: int) -> Iterator[None]:
        """Stop one in its tracks while the block runs: its connections stay, and nothing answers."""
        self._servers[index].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._servers[index].send_signal(signal.SIGCONT)

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


@pytest.mark.asyncio
async def test_a_rolling_restart_loses_and_repeats_nothing(kind: ProxyKind, replicas: Replicas, tmp_path: Path) -> None:
    ports = Ports.free(replicas.ports)
    async with running_proxy(kind, ports, tmp_path) as proxy, AsyncClient(proxy.address) as client:
        flow = ItemFlow(client)
        await flow.wait_for(50)
        for index in (0, 1):
            assert (await replicas.restart(index)).exit_code == 0
            await flow.wait_for(50)
        await flow.finish()


@pytest.mark.asyncio
async def test_a_killed_replica_costs_no_result(kind: ProxyKind, replicas: Replicas, tmp_path: Path) -> None:
    ports = Ports.free(replicas.ports)
    try:
        async with running_proxy(kind, ports, tmp_path) as proxy, AsyncClient(proxy.address) as client:
            flow = ItemFlow(client)
            await flow.wait_for(50)
            await asyncio.to_thread(replicas.kill, 0)
            await flow.wait_for(100)
            await flow.finish()
    finally:
        await asyncio.to_thread(replicas.revive, 0)


@pytest.mark.asyncio
async def test_envoy_gives_a_frozen_replica_no_streams_and_takes_it_back(replicas: Replicas, tmp_path: Path) -> None:
    """nginx asks no replica how it is: it has no such test to pass."""
    if ENVOY.missing:
        pytest.skip(ENVOY.missing)
    ports = Ports.free(replicas.ports)
    async with running_proxy(ENVOY, ports, tmp_path) as proxy, AsyncClient(proxy.address) as client:

        async def is_healthy(port: int) -> bool:
            clusters = await asyncio.to_thread(_admin_page, ports.admin, "/clusters")
            flags = re.search(rf"127\.0\.0\.1:{port}::health_flags::(\S+)", clusters)
            return flags is not None and flags[1] == "healthy"

        async def wait_for_health(*, expected: bool) -> None:
            async with asyncio.timeout(30):
                while await is_healthy(ports.cpu[0]) is not expected:
                    await asyncio.sleep(0.05)

        await wait_for_health(expected=True)
        with replicas.frozen(0):
            await wait_for_health(expected=False)
            flow = ItemFlow(client)
            await flow.wait_for(50)
            await flow.finish()
        await wait_for_health(expected=True)


def _admin_page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as page:
        return str(page.read(), "utf-8")
