"""The lower level of a stream: send, events, cancel, release, half-close, finish."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monopath import AsyncClient, Client, PlanEvent, Result, StreamClosed, Summary
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS
from tests.clients.fake_server import Gate, Servicer, answering, holding, serving
from tests.clients.segments import ServerMemory, item_data, serving_memory


def test_events_tell_the_plan_and_then_the_result_of_each_item() -> None:
    with (
        serving(Servicer(answering())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        ids = [stream.send(b"a"), stream.send(b"b")]
        events = list(stream.events())
    assert [(type(event), event.id) for event in events] == [
        (PlanEvent, ids[0]),
        (Result, ids[0]),
        (PlanEvent, ids[1]),
        (Result, ids[1]),
    ]


@pytest.mark.asyncio
async def test_asyncio_events_tell_the_plan_and_then_the_result_of_each_item() -> None:
    with serving(Servicer(answering())) as address:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            item_id = await stream.send(b"a")
            events = [event async for event in stream.events()]
    assert [(type(event), event.id) for event in events] == [(PlanEvent, item_id), (Result, item_id)]


def test_send_waits_for_room_and_keeps_what_comes_meanwhile() -> None:
    with (
        serving(Servicer(answering())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        ids = [stream.send(b"a") for _ in range(10)]
        results = [event for event in stream.events() if isinstance(event, Result)]
    assert [result.id for result in results] == ids == list(range(1, 11))


def test_one_thread_may_send_while_another_reads() -> None:
    item_count = 200
    results: list[int] = []
    with (
        serving(Servicer(answering())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):

        def read() -> None:
            while len(results) < item_count:
                results.extend(event.id for event in stream.events() if isinstance(event, Result))

        reader = threading.Thread(target=read)
        reader.start()
        ids = [stream.send(b"a") for _ in range(item_count)]
        reader.join(30)
        assert not reader.is_alive()
    assert results == ids


@pytest.mark.asyncio
async def test_one_task_may_send_while_another_reads() -> None:
    item_count = 200
    results: list[int] = []
    with serving(Servicer(answering())) as address:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            sent = asyncio.Event()

            async def read() -> None:
                while len(results) < item_count:
                    await sent.wait()
                    async for event in stream.events():
                        if isinstance(event, Result):
                            results.append(event.id)
                    sent.clear()

            async with asyncio.TaskGroup() as group:
                group.create_task(read())
                for _ in range(item_count):
                    await stream.send(b"a")
                    sent.set()
    assert results == list(range(1, item_count + 1))


def test_a_cancelled_item_ends_once_as_cancelled() -> None:
    with (
        serving(Servicer(holding())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        item_id = stream.send(b"a")
        assert stream.cancel(item_id)
        results = [event for event in stream.events() if isinstance(event, Result)]
        assert not stream.cancel(item_id)
        with pytest.raises(ValueError, match="Expected the id of an item that was sent, got 7"):
            stream.cancel(7)
    assert [(result.id, result.error and result.error.reason) for result in results] == [(item_id, "CANCELLED")]
    assert stream.summary == Summary(1, 0, 0, 1, 0, 0)


@pytest.mark.asyncio
async def test_an_item_cancelled_under_asyncio_ends_once_as_cancelled() -> None:
    with serving(Servicer(holding())) as address:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            item_id = await stream.send(b"a")
            assert await stream.cancel(item_id)
            results = [event async for event in stream.events() if isinstance(event, Result)]
            assert not await stream.cancel(item_id)
    assert [result.error and result.error.reason for result in results] == ["CANCELLED"]


def test_a_release_reaches_the_server(tmp_path: Path) -> None:
    with (
        ServerMemory(tmp_path) as memory,
        serving(Servicer(serving_memory(memory))) as address,
        Client(address, shared_memory_directory=tmp_path) as client,
        client.deferred_cpu(**ARGUMENTS, transport="shared_memory") as stream,
    ):
        item_id = stream.send(b"a")
        kept = list(stream.events())
        assert stream.release(item_id)
        assert not stream.release(item_id)
        with pytest.raises(ValueError, match="Expected the id"):
            stream.release(9)
        assert memory.released.get(timeout=30) == item_id
        assert len(kept) == 2


def test_what_was_sent_is_still_answered_after_the_half_close() -> None:
    with (
        serving(Servicer(answering())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        item_id = stream.send(b"a")
        stream.half_close()
        with pytest.raises(StreamClosed):
            stream.send(b"b")
        assert [event.id for event in stream.events()] == [item_id, item_id]
        summary = stream.finish()
        assert summary is not None
        assert summary.completed_count == 1


def test_results_that_come_during_finish_are_kept() -> None:
    with (
        serving(Servicer(answering())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        item_id = stream.send(b"a")
        stream.finish()
        assert [event.id for event in stream.events()] == [item_id, item_id]


def test_map_does_not_mix_with_items_of_send() -> None:
    with (
        serving(Servicer(answering())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        stream.send(b"a")
        with pytest.raises(RuntimeError, match="Expected a stream without items in flight"):
            next(stream.map([b"b"]))
        list(stream.events())
        assert [result.ok for result in stream.map([b"b"])] == [True]


@pytest.mark.asyncio
async def test_a_wait_that_is_cancelled_leaves_the_asyncio_stream_usable() -> None:
    gate = Gate()

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        first = next(requests).item
        gate.wait()
        yield from wire.CPU.whole_item(first.id)
        for _ in requests:
            pass
        yield wire.CPU.summary(completed=1)

    with serving(Servicer(script)) as address:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            item_id = await stream.send(b"a")
            waiting = asyncio.ensure_future(anext(stream.events()))
            await asyncio.sleep(0)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            gate.open()
            assert [event.id async for event in stream.events()] == [item_id, item_id]


@pytest.mark.parametrize("order", ["as_completed", "as_sent"])
def test_items_that_were_never_sent_are_not_cancelled_at_the_server(order: str) -> None:
    """A server ends the stream for an id that it does not know."""
    told: list[str] = []

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        for request in requests:
            told.append(request.WhichOneof("payload"))
            if told[-1] == "cancellation":
                yield wire.CPU.error(request.cancellation.id, 17)
        yield wire.CPU.summary(cancelled=1)

    too_large = bytes(wire.LIMITS.max_request_bytes + 1)
    with (
        serving(Servicer(script)) as address,
        Client(address) as client,
        client.deferred_cpu(**{**ARGUMENTS, "order": order}) as stream,
    ):
        held, refused = stream.send(b"a"), stream.send(too_large)
        assert not stream.cancel(refused)
        assert not stream.release(refused)
        assert stream.cancel(held)
        results = {event.id: event for event in stream.events() if isinstance(event, Result)}
    assert told == ["item", "cancellation"]
    assert [results[item_id].ok for item_id in (held, refused)] == [False, False]


def test_leaving_map_tells_the_server_nothing_of_items_that_were_never_sent() -> None:
    told: list[str] = []

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        for request in requests:
            told.append(request.WhichOneof("payload"))
            match told[-1]:
                case "cancellation":
                    yield wire.CPU.error(request.cancellation.id, 17)
                case _:
                    yield wire.CPU.plan(request.item.id)
        yield wire.CPU.summary(cancelled=1)

    def stop(_plan: PlanEvent) -> None:
        raise LookupError

    too_large = bytes(wire.LIMITS.max_request_bytes + 1)
    with (
        serving(Servicer(script)) as address,
        Client(address) as client,
        client.deferred_cpu(**{**ARGUMENTS, "order": "as_sent"}) as stream,
    ):
        with pytest.raises(LookupError):
            list(stream.map([b"a", too_large], on_plan=stop))
        assert list(stream.map([])) == []
        stream.finish()
    assert told == ["item", "cancellation"]


def test_memory_of_an_item_of_an_earlier_stream_needs_no_release(tmp_path: Path) -> None:
    kinds: list[list[str]] = []

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        kinds.append([request.WhichOneof("payload") for request in (next(requests),)])
        yield wire.CPU.ready(shared_memory=memory.offer)
        for count, request in enumerate(requests, start=1):
            kinds[-1].append(request.WhichOneof("payload"))
            if len(kinds) == 1 and count == 1:
                yield wire.CPU.goaway()
            if request.WhichOneof("payload") == "item":
                yield from memory.whole_item(request.item.id, item_data(request.item.id))
        yield wire.CPU.summary(completed=1)

    with (
        ServerMemory(tmp_path) as memory,
        serving(Servicer(script)) as address,
        Client(address, shared_memory_directory=tmp_path) as client,
        client.deferred_cpu(**ARGUMENTS, transport="shared_memory") as stream,
    ):
        first = stream.send(b"a")
        kept = list(stream.events())
        second = stream.send(b"b")
        kept += stream.events()
        assert not stream.release(first)
        assert stream.release(second)
        assert len(kept) == 4
    assert kinds == [["config", "item"], ["config", "item", "release"]]
