"""Both clients against the real server over shared memory: the same bytes as inline, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from monopath import AsyncClient, Client, LocalFeatures, RawImage, Result, StreamRefused, Summary
from tests.clients.drivers import KINDS
from tests.support.processes import serving
from tests.support.server import quick_settings, running_server

pytestmark = pytest.mark.asyncio
_ValueT = TypeVar("_ValueT")
MIB = 1 << 20


def _images(*sizes: int) -> list[RawImage]:
    """Return images with so many pixels on a side, each with pixels of its own."""
    return [
        RawImage(np.random.default_rng(index).integers(0, 256, (size, size, 3), np.uint8), "RGB8")
        for index, size in enumerate(sizes)
    ]


async def _in_thread(run: Callable[[], _ValueT]) -> _ValueT:
    """Run the sync client beside the server, which needs this loop."""
    return await asyncio.wait_for(asyncio.to_thread(run), 100)


async def _map(
    kind: str, address: str, directory: Path, images: list[Any], *, method: str = "deferred_cpu", **arguments: Any
) -> tuple[list[Result[Any]], Summary]:
    arguments = {"preset": "kimi-k3", "data_type": "float32", "order": "as_sent", **arguments}

    def run() -> tuple[list[Result[Any]], Summary]:
        with Client(address, shared_memory_directory=directory) as client:
            with getattr(client, method)(**arguments) as stream:
                results = list(stream.map(images))
            return results, stream.summary

    if kind == "sync":
        return await _in_thread(run)
    async with AsyncClient(address, shared_memory_directory=directory) as client:
        async with getattr(client, method)(**arguments) as stream:
            results = [result async for result in stream.map(images)]
        return results, stream.summary


def _settings(directory: Path, **changes: Any) -> Any:
    return quick_settings(shared_memory_directory=directory, **changes)


@KINDS
@pytest.mark.parametrize("data_type", ["uint8", "float32", "float16", "bfloat16"])
async def test_features_are_the_same_inline_and_in_shared_memory(kind: str, data_type: str, tmp_path: Path) -> None:
    images: list[Any] = [*_images(40, 200, 333), b"no image"]
    async with running_server(_settings(tmp_path)) as address:
        inline, _ = await _map(kind, address, tmp_path, images, data_type=data_type)
        shared, summary = await _map(kind, address, tmp_path, images, data_type=data_type, transport="shared_memory")
        assert [result.ok for result in shared] == [True, True, True, False]
        assert [result.sha256() for result in shared[:3]] == [result.sha256() for result in inline[:3]]
        assert summary.fallback_count == 0
        locals_ = [
            LocalFeatures(result.array, result.plan.original_size, result.plan.grid_thw) for result in shared[:3]
        ]
        returned, _ = await _map(
            kind, address, tmp_path, locals_, method="local", data_type=data_type, transport="shared_memory"
        )
        assert [result.sha256() for result in returned] == [result.sha256() for result in inline[:3]]
    # The server is gone, and what it handed out is what it was.
    assert [result.sha256() for result in shared[:3]] == [result.sha256() for result in inline[:3]]
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - pathlib's would block, says ruff


@KINDS
async def test_a_full_server_falls_back_to_messages_and_holding_results_is_no_deadlock(
    kind: str, tmp_path: Path
) -> None:
    images = _images(*[200] * 12)
    async with running_server(_settings(tmp_path, max_shared_memory_bytes=4 * MIB)) as address:
        inline, _ = await _map(kind, address, tmp_path, images)
        shared, summary = await _map(kind, address, tmp_path, images, transport="shared_memory")
    assert 0 < summary.fallback_count < len(images)
    assert [result.sha256() for result in shared] == [result.sha256() for result in inline]


@KINDS
async def test_results_that_are_let_go_make_room_for_the_next(kind: str, tmp_path: Path) -> None:
    images = _images(*[200] * 12)
    settings = _settings(tmp_path, max_shared_memory_bytes=4 * MIB, max_unfinished_items=2)

    def run(address: str) -> Summary | None:
        with Client(address, shared_memory_directory=tmp_path) as client:
            arguments: dict[str, Any] = {"preset": "kimi-k3", "data_type": "float32", "transport": "shared_memory"}
            with client.deferred_cpu(**arguments, max_unfinished_items=1) as stream:
                for image in images:
                    stream.send(image)
                    for event in stream.events():
                        if isinstance(event, Result):
                            with event:
                                assert event.array.shape[1:] == (3, 14, 14)
        return stream.summary

    async def run_async(address: str) -> Summary | None:
        async with AsyncClient(address, shared_memory_directory=tmp_path) as client:
            arguments: dict[str, Any] = {"preset": "kimi-k3", "data_type": "float32", "transport": "shared_memory"}
            async with client.deferred_cpu(**arguments, max_unfinished_items=1) as stream:
                for image in images:
                    await stream.send(image)
                    async for event in stream.events():
                        if isinstance(event, Result):
                            with event:
                                assert event.array.shape[1:] == (3, 14, 14)
        return stream.summary

    async with running_server(settings) as address:
        summary = await (_in_thread(lambda: run(address)) if kind == "sync" else run_async(address))
    assert summary is not None
    assert (summary.completed_count, summary.fallback_count) == (12, 0)


@KINDS
async def test_the_cache_says_what_it_did_and_keeps_out_of_it_when_asked(kind: str, tmp_path: Path) -> None:
    images = _images(150)
    outcomes = []
    async with running_server(_settings(tmp_path, cache_bytes=64 * MIB)) as address:
        digests = set()
        for bypass, transport in ((False, "shared_memory"), (False, "shared_memory"), (True, "shared_memory")):
            (result,), _ = await _map(kind, address, tmp_path, images, transport=transport, bypass_cache=bypass)
            outcomes.append(result.cache)
            # Writes to a mapping must not reach the cache.
            digests.add(result.sha256())
            result.array[:] = 0
            del result
            gc.collect()
    assert outcomes == ["miss", "hit", "bypassed"]
    assert len(digests) == 1


@KINDS
async def test_a_client_that_looks_elsewhere_is_refused_with_the_reason(kind: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with running_server(_settings(here)) as address:
        with pytest.raises(StreamRefused) as caught:
            await _map(kind, address, there, [], transport="shared_memory")
        assert caught.value.reason == "TRANSPORT_UNAVAILABLE"
        async with AsyncClient(address) as client:
            transports = {transport.name: transport.available for transport in (await client.capabilities()).transports}
        assert transports["shared_memory"]
    async with running_server(_settings(here, max_shared_memory_bytes=0)) as address:
        with pytest.raises(StreamRefused) as caught:
            await _map(kind, address, here, [], transport="shared_memory")
        assert caught.value.reason == "TRANSPORT_UNAVAILABLE"


async def test_results_outlive_a_server_that_was_killed(tmp_path: Path) -> None:
    images = _images(100, 120)

    def run() -> None:
        with serving("--address", "127.0.0.1:0", "--cuda", "off", "--shared-memory-dir", str(tmp_path)) as server:
            with Client(server.address, shared_memory_directory=tmp_path) as client:
                arguments: dict[str, Any] = {"preset": "kimi-k3", "data_type": "float32", "order": "as_sent"}
                with client.deferred_cpu(**arguments) as stream:
                    inline = [result.sha256() for result in stream.map(images)]
                with client.deferred_cpu(**arguments, transport="shared_memory") as stream:
                    results = list(stream.map(images))
                    server.send_signal(signal.SIGKILL)
                    server.wait()
                    assert [result.sha256() for result in results] == inline
                    results[0].release()
                    results.pop(0)
                    gc.collect()
                    stream.close()
            assert results[0].sha256() == inline[1]

    await _in_thread(run)
