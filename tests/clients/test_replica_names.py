"""Replicas behind one name, as a headless Service has it: those that come are found, and those that go cost nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from monopath import AsyncClient
from monopath_server.app import Server
from tests.support.footprint import until
from tests.support.item_flow import ItemFlow
from tests.support.names import NameServer, serving_names
from tests.support.ports import free_ports
from tests.support.server import quick_settings

STREAM_AGE_SECONDS = 1.0
# The client's own default is 30 seconds, which no test waits for.
ASKS_OFTEN = [("grpc.dns_min_time_between_resolutions_ms", 100)]


def _address(index: int) -> str:
    """Loopback addresses stand for pods: all have one port."""
    return f"127.0.0.{index + 2}"


@asynccontextmanager
async def _flowing(servers: list[Server], names: NameServer, port: int) -> AsyncIterator[ItemFlow]:
    """Items to the servers that a name stands for; the client knows nothing else of them."""
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        client = AsyncClient(names.target(port), check_health=True, options=ASKS_OFTEN)
        flow = ItemFlow(await stack.enter_async_context(client))
        await until(lambda: all(map(_stream_count, servers)), "streams on every server")
        yield flow
        await flow.finish()


def _server(index: int, port: int) -> Server:
    return Server(quick_settings(address=f"{_address(index)}:{port}", max_stream_age_seconds=STREAM_AGE_SECONDS))


def _stream_count(server: Server) -> int:
    return len(server._servicer._sessions)


@pytest.mark.asyncio
async def test_a_replica_that_is_added_to_a_name_gets_streams() -> None:
    [port] = free_ports(1)
    *servers, new_server = (_server(index, port) for index in range(3))
    with serving_names(_address(0), _address(1)) as names:
        async with _flowing(servers, names, port), new_server:
            names.addresses.append(_address(2))
            await until(lambda: _stream_count(new_server) > 0, "a stream on the new server")


@pytest.mark.asyncio
async def test_a_replica_that_is_removed_from_a_name_and_stopped_costs_no_result() -> None:
    [port] = free_ports(1)
    servers = [_server(index, port) for index in range(2)]
    with serving_names(_address(0), _address(1)) as names:
        async with _flowing(servers, names, port) as flow:
            names.addresses.remove(_address(0))
            await servers[0].stop()
            await flow.wait_for(50)
