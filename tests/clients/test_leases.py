"""Leases: memory of the server's is given back once, on its own stream, when nobody reads it any more."""

from __future__ import annotations

import asyncio
import gc
import queue
from collections.abc import Iterator
from typing import Any

import pytest

from monopath import AsyncClient, Client, Result, concatenate
from monopath.v1 import error_pb2
from tests.clients import wire
from tests.clients.drivers import KINDS, SHARED, map_all
from tests.clients.fake_server import Servicer, serving
from tests.clients.segments import ServerMemory, item_data, serving_memory

CPU = wire.CPU


@KINDS
@pytest.mark.parametrize("way", ["release", "with", "garbage", "stream"])
def test_an_item_is_released_once_however_the_caller_says_so(kind: str, way: str, memory: ServerMemory) -> None:
    def give_up(results: list[Result[Any]]) -> None:
        match way:
            case "release":
                results[0].release()
                results[0].release()
            case "with":
                with results[0] as result:
                    assert result.array.tobytes() == item_data(1)
            case _:
                pass

    def run_sync(address: str) -> None:
        with (
            Client(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            results = list(stream.map([b"a"]))
            give_up(results)
            if way == "stream":
                assert stream.release(1)
                assert not stream.release(1)
                with pytest.raises(RuntimeError, match="Expected held features"):
                    _ = results[0].array
            results.clear()
            assert memory.wait_released(1) == [1]

    async def run_async(address: str) -> None:
        async with (
            AsyncClient(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            results = [result async for result in stream.map([b"a"])]
            give_up(results)
            if way == "stream":
                assert await stream.release(1)
                assert not await stream.release(1)
            results.clear()
            assert await asyncio.to_thread(memory.wait_released, 1) == [1]

    with serving(Servicer(serving_memory(memory))) as address:
        if kind == "sync":
            run_sync(address)
        else:
            asyncio.run(run_async(address))
    assert memory.released.empty()


def test_a_view_or_a_tensor_keeps_its_item_from_being_released(memory: ServerMemory) -> None:
    with (
        serving(Servicer(serving_memory(memory))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
    ):
        with client.deferred_cpu(**SHARED) as stream:
            view: Any = None
            tensor: Any = None
            for result in stream.map([b"a", b"b", b"c"]):
                match result.id:
                    case 1:
                        view = result.array[0, 1:].reshape(-1)[3:]
                    case 2:
                        tensor = result.torch()[0, 1:].flatten()[3:]
                    case _:
                        pass
            del result
            assert memory.wait_released(1) == [3]
            assert view.tobytes() == item_data(1)[28:]
            assert tensor.numpy().tobytes() == item_data(2)[28:]
            del view
            assert memory.wait_released(1) == [1]
            del tensor
            assert memory.wait_released(1) == [2]
        assert memory.released.empty()


def test_released_features_cannot_be_read_and_the_rest_of_the_result_can(memory: ServerMemory) -> None:
    with (
        serving(Servicer(serving_memory(memory))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        (result,) = stream.map([b"a"])
        result.release()
        for read in (lambda: result.array, result.torch, result.sha256, lambda: concatenate([result])):
            with pytest.raises(RuntimeError, match="Expected held features, got released ones"):
                read()
        assert result.ok
        assert result.plan.shape == wire.SHAPE
        assert result.provenance.route == "host"
        assert "shape=[1, 3, 2, 2]" in repr(result)


def test_features_that_came_inline_are_released_the_same_way(memory: ServerMemory) -> None:
    with (
        serving(Servicer(serving_memory(memory, lambda item: CPU.whole_item(item.id)))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        (result,) = stream.map([b"a"])
        assert not stream.release(1)
        result.release()
        with pytest.raises(RuntimeError, match="Expected held features"):
            _ = result.array
        stream.finish()
    assert memory.released.empty()


def test_a_batch_holds_no_leases(memory: ServerMemory) -> None:
    with (
        serving(Servicer(serving_memory(memory))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        batch = concatenate(stream.map([b"a", b"b"]))
        assert memory.wait_released(2) == [1, 2]
        for segment in memory.segments.values():
            segment.memory[:] = bytes(segment.size_bytes)
        assert batch.pixel_values.tobytes() == item_data(1) + item_data(2)


@KINDS
def test_a_result_that_the_caller_dropped_is_not_held_while_the_next_is_awaited(
    kind: str, memory: ServerMemory
) -> None:
    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield CPU.ready(shared_memory=memory.offer)
        ids = [next(requests).item.id, next(requests).item.id]
        yield from memory.whole_item(ids[0], item_data(1))
        # Without the first one's release this server has no room for the second one.
        assert next(requests).release.id == ids[0]
        yield from memory.whole_item(ids[1], item_data(2))
        for _ in requests:
            pass
        yield CPU.summary(completed=2)

    def run_sync(address: str, way: str) -> None:
        with (
            Client(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            if way == "map":
                ends: Iterator[Any] = stream.map([b"a", b"b"])
            else:
                stream.send(b"a"), stream.send(b"b")
                ends = stream.events()
                next(ends)
            assert next(ends).id == 1
            assert next(ends).id == 2

    async def run_async(address: str, way: str) -> None:
        async with (
            AsyncClient(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            if way == "map":
                ends: Any = stream.map([b"a", b"b"])
            else:
                await stream.send(b"a"), await stream.send(b"b")
                ends = stream.events()
                await anext(ends)
            assert (await anext(ends)).id == 1
            assert (await anext(ends)).id == 2
            await ends.aclose()

    for way in ("map", "events"):
        with serving(Servicer(script)) as address:
            if kind == "sync":
                run_sync(address, way)
            else:
                asyncio.run(run_async(address, way))


@KINDS
@pytest.mark.parametrize("streams", [1, 2])
def test_results_of_a_map_that_is_left_early_are_released(kind: str, streams: int, memory: ServerMemory) -> None:
    def run_sync(address: str) -> None:
        with (
            Client(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            for _result in stream.map([b"a"] * 20, streams=streams):
                break
            del _result

    async def run_async(address: str) -> None:
        async with (
            AsyncClient(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            async for _result in stream.map([b"a"] * 20, streams=streams):
                break

    with serving(Servicer(serving_memory(memory))) as address:
        if kind == "sync":
            run_sync(address)
        else:
            asyncio.run(run_async(address))
    gc.collect()
    # What the server handed out and was not told of by then, it had back with the streams' ends.
    released = [memory.released.get() for _ in range(memory.released.qsize())]
    assert len(set(released)) == len(released)


def test_a_release_names_the_item_as_its_stream_knows_it(memory: ServerMemory) -> None:
    """An item that is sent again on the same stream has another id there."""
    seen: list[int] = []

    def answer(item: Any) -> list[Any]:
        seen.append(item.id)
        if len(seen) == 1:
            overloaded = error_pb2.ITEM_ERROR_REASON_OVERLOADED
            return [CPU.error(item.id, overloaded, message="full")]
        return memory.whole_item(item.id, item_data(item.id))

    with serving(Servicer(serving_memory(memory, answer))) as address:
        map_all("sync", address, [b"a"] * 4, transport="shared_memory", directory=memory.directory)
    assert seen[-1] == 5
    released = [memory.released.get() for _ in range(memory.released.qsize())]
    assert set(released) <= {2, 3, 4, 5}

    with (
        serving(Servicer(serving_memory(memory, answer))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        seen.clear()
        results = {result.id: result for result in stream.map([b"a"] * 4)}
        assert sorted(results) == [1, 2, 3, 4]
        results[1].release()
        assert memory.wait_released(1) == [5]
        results[3].release()
        assert memory.wait_released(1) == [3]


@KINDS
def test_a_release_never_goes_to_a_later_stream(kind: str, memory: ServerMemory) -> None:
    streams: list[list[str]] = []

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        kinds: list[str] = []
        streams.append(kinds)
        yield CPU.ready(shared_memory=memory.offer)
        count = 0
        for request in requests:
            kinds.append(f"{request.WhichOneof('payload')} {request.item.id or request.release.id}")
            if request.WhichOneof("payload") == "item":
                count += 1
                if len(streams) == 1:
                    yield CPU.goaway()
                yield from memory.whole_item(request.item.id, item_data(request.item.id))
            else:
                memory.released.put(request.release.id)
        yield CPU.summary(completed=count)

    def run_sync(address: str) -> None:
        with (
            Client(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED, max_unfinished_items=1) as stream,
        ):
            results = list(stream.map([b"a", b"b", b"c"]))
            results[0].release()
            results[1].release()
            assert memory.released.get(timeout=30) == 2

    async def run_async(address: str) -> None:
        async with (
            AsyncClient(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED, max_unfinished_items=1) as stream,
        ):
            results = [result async for result in stream.map([b"a", b"b", b"c"])]
            results[0].release()
            results[1].release()
            assert await asyncio.to_thread(memory.released.get, timeout=30) == 2

    with serving(Servicer(script)) as address:
        if kind == "sync":
            run_sync(address)
        else:
            asyncio.run(run_async(address))
    assert streams == [["item 1"], ["item 2", "item 3", "release 2"]]


def test_releases_from_many_threads_are_one_each(memory: ServerMemory) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with (
        serving(Servicer(serving_memory(memory))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
        ThreadPoolExecutor(8) as pool,
    ):
        results = list(stream.map([b"a"] * 50))
        list(pool.map(lambda result: result.release(), results * 8))
        assert memory.wait_released(50) == list(range(1, 51))
    with pytest.raises(queue.Empty):
        memory.released.get_nowait()


@KINDS
def test_garbage_may_be_collected_at_any_moment(kind: str, memory: ServerMemory) -> None:
    """Results in cycles are found by the collector, in whichever thread and call it happens to run."""
    count = 300
    found: list[bytes] = []

    def keep_in_a_cycle(result: Any) -> None:
        found.append(result.array.tobytes())
        cycle = [result]
        cycle.append(cycle)

    def run_sync(address: str) -> None:
        with (
            Client(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            for result in stream.map([b"a"] * count, streams=2):
                keep_in_a_cycle(result)

    async def run_async(address: str) -> None:
        async with (
            AsyncClient(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            async for result in stream.map([b"a"] * count, streams=2):
                keep_in_a_cycle(result)

    before = gc.get_threshold()
    with serving(Servicer(serving_memory(memory))) as address:
        gc.set_threshold(20, 2, 2)
        try:
            if kind == "sync":
                run_sync(address)
            else:
                asyncio.run(run_async(address))
        finally:
            gc.set_threshold(*before)
    assert len(found) == count
    released = [memory.released.get() for _ in range(memory.released.qsize())]
    # The last few went with their streams.
    assert len(released) > count // 2
    assert len(set(released)) == len(released)


def test_a_release_right_before_the_half_close_is_sent(memory: ServerMemory) -> None:
    async def run(address: str) -> None:
        async with (
            AsyncClient(address, shared_memory_directory=memory.directory) as client,
            client.deferred_cpu(**SHARED) as stream,
        ):
            results = [result async for result in stream.map([b"a", b"b"])]
            results[0].release()
            await stream.half_close()
            results[1].release()
            await stream.finish()

    with serving(Servicer(serving_memory(memory))) as address:
        asyncio.run(run(address))
    assert memory.wait_released(1) == [1]
    assert memory.released.empty()
