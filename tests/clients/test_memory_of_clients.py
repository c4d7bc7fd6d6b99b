"""What a client leaves behind in shared memory: nothing, however it ends; and what it says where it has none."""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from monopath import AsyncClient, Client, StreamClosed, StreamRefused
from monopath._upload import MIN_UPLOAD_BYTES
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, SHARED, map_all
from tests.clients.fake_server import Servicer, serving
from tests.clients.segments import ServerMemory, item_data, serving_memory

LARGE = bytes(MIN_UPLOAD_BYTES)


def _of_others(memory: ServerMemory) -> list[str]:
    """Return the names of all files that are not the server's."""
    return [entry.name for entry in memory.directory.iterdir() if not entry.name.startswith(memory.owner._name)]


@KINDS
def test_a_closed_client_leaves_nothing_behind(kind: str, memory: ServerMemory) -> None:
    with serving(Servicer(serving_memory(memory))) as address:
        results = map_all(kind, address, [LARGE, LARGE], transport="shared_memory", directory=memory.directory)
    assert len(results) == 2
    assert _of_others(memory) == []


@KINDS
def test_a_client_that_is_closed_in_the_middle_leaves_nothing_behind(kind: str, memory: ServerMemory) -> None:
    def holding(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready(shared_memory=memory.offer)
        for request in requests:
            yield wire.CPU.plan(request.item.id)

    def run_sync(address: str) -> None:
        client = Client(address, shared_memory_directory=memory.directory)
        stream = client.deferred_cpu(**SHARED).__enter__()
        stream.send(LARGE)
        next(iter(stream.events()))
        assert len(_of_others(memory)) == 3
        client.close()

    async def run_async(address: str) -> None:
        client = AsyncClient(address, shared_memory_directory=memory.directory)
        stream = await client.deferred_cpu(**SHARED).__aenter__()
        await stream.send(LARGE)
        events = stream.events()
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert len(_of_others(memory)) == 3
        await client.close()

    with serving(Servicer(holding)) as address:
        if kind == "sync":
            run_sync(address)
        else:
            asyncio.run(run_async(address))
    assert _of_others(memory) == []


def test_a_client_that_is_forgotten_leaves_nothing_behind(memory: ServerMemory) -> None:
    with serving(Servicer(serving_memory(memory))) as address:
        client = Client(address, shared_memory_directory=memory.directory)
        with client.deferred_cpu(**SHARED) as stream:
            assert len(list(stream.map([LARGE]))) == 1
        assert len(_of_others(memory)) == 3
        client._channel.close()
        del client, stream
        gc.collect()
    assert _of_others(memory) == []


PROGRAM = """
    import os, sys, signal
    from pathlib import Path
    from monopath import Client

    client = Client(sys.argv[1], shared_memory_directory=Path(sys.argv[2]))
    stream = client.deferred_cpu(preset="x", data_type="float32", transport="shared_memory").__enter__()
    results = [result for result in stream.map([bytes(200_000), b"b", b"c"])]
    arrays = [result.array for result in results]
    cycle = [results.pop()]
    cycle.append(cycle)
    del results[0], arrays[0]
    print(arrays[0].shape, flush=True)
"""


@pytest.mark.parametrize("end", ["", "os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_ends_in_silence_with_results_in_its_hands(end: str, memory: ServerMemory) -> None:
    with serving(Servicer(serving_memory(memory))) as address:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM) + end, address, memory.directory],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("(1, 3, 2, 2)\n", "")
        assert done.returncode == (-signal.SIGKILL if "SIGKILL" in end else 0)
        if "_exit" not in end and "SIGKILL" not in end:
            assert _of_others(memory) == []
        assert bool(_of_others(memory)) == bool("_exit" in end or "SIGKILL" in end)
        # The next client takes away what a dead one could not.
        with Client(address, shared_memory_directory=memory.directory) as client, client.deferred_cpu(**SHARED):
            assert len(_of_others(memory)) == 2
    assert _of_others(memory) == []


@KINDS
@pytest.mark.parametrize("reason", ["missing", "full", "full for the probe", "not a folder"])
def test_a_host_without_shared_memory_is_told_at_the_opening(
    kind: str, reason: str, memory: ServerMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = memory.directory / "nowhere"
    match reason:
        case "not a folder":
            directory.write_bytes(b"")
        case "full" | "full for the probe":
            directory.mkdir()
            real = os.open

            def no_space(path: Any, flags: int, *rest: Any, **options: Any) -> int:
                if flags & os.O_CREAT and str(directory) in str(path) and reason == "full":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(path, flags, *rest, **options)

            def no_pages(*_arguments: Any) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            monkeypatch.setattr(os, "open", no_space)
            monkeypatch.setattr(os, "posix_fallocate", no_pages)
        case _:
            pass
    with serving(Servicer(serving_memory(memory))) as address, pytest.raises(StreamRefused) as caught:
        map_all(kind, address, [b"a"], transport="shared_memory", directory=directory)
    assert caught.value.reason == "TRANSPORT_UNAVAILABLE"
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert str(directory) in str(caught.value)
    assert "shared_memory_directory" in str(caught.value)
    if directory.is_dir():
        assert list(directory.iterdir()) == []


def test_a_stream_of_a_closed_client_is_refused(memory: ServerMemory) -> None:
    with serving(Servicer(serving_memory(memory))) as address:
        client = Client(address, shared_memory_directory=memory.directory)
        stream = client.deferred_cpu(**SHARED)
        client.close()
        with pytest.raises(StreamClosed, match="Expected an open"):
            stream.__enter__()
    assert _of_others(memory) == []


def test_transports_that_cannot_be_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with Client("127.0.0.1:1", shared_memory_directory=tmp_path) as client:
        for method in (client.deferred_cpu, client.local):
            with pytest.raises(ValueError, match="Expected the transport cuda_ipc on the path DEFERRED_CUDA only"):
                method(**ARGUMENTS, transport="cuda_ipc")
        with pytest.raises(ValueError, match="Expected transport to be one of inline, shared_memory, cuda_ipc"):
            client.deferred_cpu(**{**ARGUMENTS, "transport": "pigeon"})
        client.deferred_cpu(**ARGUMENTS, transport="shared_memory")
    assert list(tmp_path.iterdir()) == []


@KINDS
@pytest.mark.parametrize("transport", ["inline", "shared_memory"])
@pytest.mark.parametrize("bypass", [False, True])
def test_the_config_says_the_transport_and_the_cache(
    kind: str, transport: str, bypass: bool, memory: ServerMemory
) -> None:
    outputs: list[Any] = []

    def script(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        config = next(requests)
        outputs.append(config.config.output)
        yield from serving_memory(memory)(itertools.chain([config], requests), context)

    def inline(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        outputs.append(next(requests).config.output)
        yield wire.CPU.ready()
        assert list(requests) == []
        yield wire.CPU.summary()

    with serving(Servicer(script if transport == "shared_memory" else inline)) as address:
        map_all(kind, address, [], transport=transport, bypass_cache=bypass, directory=memory.directory)
    (output,) = outputs
    assert output.WhichOneof("transport") == transport
    assert output.bypass_cache is bypass
    assert transport == "inline" or len(output.shared_memory.probe.nonce) >= 16


def test_a_result_that_is_dropped_after_its_event_loop_has_ended_is_silent(memory: ServerMemory) -> None:
    async def run(address: str) -> list[Any]:
        client = AsyncClient(address, shared_memory_directory=memory.directory)
        stream = client.deferred_cpu(**SHARED)
        await stream.__aenter__()
        results = [result async for result in stream.map([b"a", b"b"])]
        kept.append((client, stream))
        return results

    kept: list[Any] = []
    with serving(Servicer(serving_memory(memory))) as address:
        results = asyncio.run(run(address))
        assert results[1].array.tobytes() == item_data(2)
        results[0].release()
        results.clear()
        gc.collect()
        kept.clear()
        gc.collect()
