"""Processes that are killed while features are leased: the other side goes on, and shared memory is given back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import grpc
import pytest

from tests.load.leasing_client import LEASE_COUNT, hold_leases, image_of
from tests.stream.shared_rig import SharedRig, finished, shared_rig
from tests.support.footprint import until
from tests.support.processes import REPOSITORY, SOURCE_PATHS, Finished, ServerProcess, serving
from tests.support.segments import ClientMemory, shared_directory
from tests.support.stream import RawStream, encoded, make_config, make_item

KILL_COUNT = 10
KILLED = -signal.SIGKILL


def server_of(directory: Path) -> contextlib.AbstractContextManager[ServerProcess]:
    return serving("--address", "127.0.0.1:0", "--cuda", "off", "--shared-memory-dir", str(directory))


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def owners(directory: Path) -> set[str]:
    """Of owners' files: living processes, and dead ones that nobody has swept."""
    return {name for name in names(directory) if name.count("-") == 1}


def names_of_others(memory: ClientMemory) -> set[str]:
    """All but this client's own."""
    return {name for name in names(memory.directory) if not name.startswith(memory.owner_name)}


async def all_gone(directory: Path, gone: set[str]) -> None:
    """Wait until none of these names is left."""
    await until(lambda: not gone & names(directory), "the end of a dead process's names")


@contextlib.asynccontextmanager
async def leasing_client(address: str, directory: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A client process that holds leases and goes on working. Gone on every way out."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.load.leasing_client", address, str(directory)),
        cwd=REPOSITORY,
        env={"PYTHONPATH": SOURCE_PATHS, "PATH": ""},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"leased\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
def directory() -> Iterator[Path]:
    with shared_directory() as path:
        yield path


async def expected_digests(rig: SharedRig) -> dict[int, str]:
    """SHA-256 of each item's features, made inline."""
    stream = await rig.run(
        [make_item(item_id, encoded(image_of(item_id))) for item_id in range(1, LEASE_COUNT + 1)], make_config()
    )
    return {item_id: outcome.sha256 for item_id, outcome in stream.outcomes.items()}


def assert_readable(stream: RawStream, expected: Mapping[int, str]) -> None:
    """Every byte that the client has mapped is what it was."""
    for item_id, digest in expected.items():
        mapped = stream.outcomes[item_id].mapped
        assert mapped is not None
        assert mapped.sha256 == digest
        assert mapped.generation == mapped.handle.generation


@pytest.mark.timeout(300)
@pytest.mark.asyncio
async def test_clients_that_are_killed_leave_nothing_in_the_server_and_nothing_behind(directory: Path) -> None:
    async with shared_rig(directory) as rig:
        own_names = names(directory)
        server_name = next(iter(owners(directory) - {rig.memory.owner_name}))
        for _ in range(KILL_COUNT):
            async with leasing_client(rig.server.address, directory) as client:
                assert rig.lease_count >= LEASE_COUNT
                assert len(owners(directory)) == 3
                client.kill()
                assert await client.wait() == KILLED
            await until(lambda: rig.lease_count == 0 and rig.pool.held_bytes == 0, "the end of all leases")
            await until(lambda: len(owners(directory)) == 2, "the end of the client's segments")
            strange = {name for name in names(directory) - own_names if not name.startswith(server_name)}
            assert strange == set()
        assert len(await expected_digests(rig)) == LEASE_COUNT
        await finished(await rig.open_shared())
        # The server's own segments are bounded by its setting, however many clients died.
        assert rig.pool.idle_bytes + rig.pool.retired_bytes < 1 << 30


@pytest.mark.timeout(300)
@pytest.mark.asyncio
async def test_clients_of_servers_that_are_killed_read_on_and_the_next_server_cleans_up(directory: Path) -> None:
    """Each server is started while the one before it still serves from the same directory."""
    async with shared_rig() as rig:
        expected = await expected_digests(rig)
    survivors: list[RawStream] = []
    with ClientMemory(directory) as memory, contextlib.ExitStack() as servers:
        server = servers.enter_context(server_of(directory))
        for _ in range(KILL_COUNT):
            async with grpc.aio.insecure_channel(server.address) as channel:
                stream = await hold_leases(channel, memory)
                first_names = names_of_others(memory)
                held = {outcome.mapped.handle.name for outcome in stream.outcomes.values() if outcome.mapped}
                assert held <= first_names
                following = servers.enter_context(await asyncio.to_thread(lambda: server_of(directory)))
                # A server that starts sweeps; a living server's segments are none of its business.
                assert held <= names(directory)
                server.send_signal(signal.SIGKILL)
                assert (await asyncio.to_thread(server.wait)).exit_code == KILLED
                while await stream.read() is not None:
                    pass
                assert_readable(stream, expected)
                assert (await stream.call.code()).name == "UNAVAILABLE"
            survivors.append(stream)
            server = following
            # Its first stream's end makes it look for the dead.
            async with grpc.aio.insecure_channel(server.address) as channel:
                opened = RawStream(channel, "deferred_cpu", directory)
                await opened.send(make_config(probe=memory.probe))
                assert await opened.finish() == "OK"
            await all_gone(directory, first_names)
        assert len(owners(directory)) == 2
        for stream in survivors:
            assert_readable(stream, expected)
        assert server.stop() == Finished(0, "", "")
        assert names_of_others(memory) == set()


@pytest.mark.asyncio
async def test_a_new_server_sweeps_what_a_dead_one_left_when_it_starts(directory: Path) -> None:
    with server_of(directory) as server:
        left = names(directory)
        server.send_signal(signal.SIGKILL)
        assert server.wait().exit_code == KILLED
    assert names(directory) == left
    assert len(left) == 2
    with server_of(directory) as server:
        assert not left & names(directory)
        assert server.stop() == Finished(0, "", "")
    assert names(directory) == set()


@pytest.mark.asyncio
async def test_a_clean_stop_leaves_an_empty_directory_and_a_clean_stderr_whatever_clients_did(directory: Path) -> None:
    with server_of(directory) as server:
        async with leasing_client(server.address, directory) as client:
            client.kill()
            await client.wait()
        with ClientMemory(directory) as memory:
            async with grpc.aio.insecure_channel(server.address) as channel:
                stream = await hold_leases(channel, memory)
                assert await stream.finish() == "OK"
        await until(lambda: len(owners(directory)) == 1, "the end of the clients' segments")
        assert server.stop() == Finished(0, "", "")
    assert names(directory) == set()
