"""`goaway`: what was sent is answered where it is, the rest goes to a new stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from monopath import AsyncClient, Client, StreamMoved, StreamRefused
from monopath.v1 import error_pb2
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, map_all
from tests.clients.fake_server import Script, Servicer, answering, serving


def leaving_after(item_count: int, ids: list[int], **ready: Any) -> Script:
    """Return the script of a good server that asks to move when it has seen some items."""

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready(**ready)
        if item_count == 0:
            yield wire.CPU.goaway()
        completed_count = 0
        for request in requests:
            ids.append(request.item.id)
            completed_count += 1
            if completed_count == item_count:
                yield wire.CPU.goaway()
            yield from wire.CPU.whole_item(request.item.id, request.item.label)
        yield wire.CPU.summary(completed=completed_count)

    return script


@KINDS
@pytest.mark.parametrize("order", ["as_completed", "as_sent"])
def test_map_moves_to_a_new_stream_without_losing_or_repeating_an_item(kind: str, order: str) -> None:
    ids: list[int] = []
    seen: dict[str, Any] = {}
    with serving(Servicer(*[leaving_after(3, ids)] * 4, answering())) as address:
        results = map_all(kind, address, [b"a"] * 12, order=order, seen=seen)
    assert [result.id for result in results] == list(range(1, 13))
    assert ids == sorted(set(ids))
    assert seen["summary"].completed_count == 12


@KINDS
def test_a_move_before_the_first_item_is_followed(kind: str) -> None:
    with serving(Servicer(leaving_after(0, []), answering())) as address:
        assert [result.id for result in map_all(kind, address, [b"a", b"b"])] == [1, 2]


@KINDS
@pytest.mark.parametrize("ready", [[], [wire.CPU.ready()]])
def test_a_server_that_only_ever_asks_to_move_is_left_in_the_end(kind: str, ready: list[Any]) -> None:
    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.goaway()
        yield from ready
        for _ in requests:
            pass
        yield wire.CPU.summary()

    with serving(Servicer(script)) as address, pytest.raises(StreamMoved):
        map_all(kind, address, [b"a"])


@KINDS
def test_a_move_to_another_config_is_refused(kind: str) -> None:
    scripts = leaving_after(1, []), leaving_after(9, [], config_sha256=b"other" * 6)
    with serving(Servicer(*scripts)) as address, pytest.raises(StreamMoved, match="config"):
        map_all(kind, address, [b"a"] * 9)


@KINDS
def test_a_move_that_the_next_server_refuses_raises_the_refusal(kind: str) -> None:
    def refuse(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.failure(error_pb2.STREAM_ERROR_REASON_DRAINING)
        for _ in requests:
            pass

    with serving(Servicer(leaving_after(1, []), refuse)) as address, pytest.raises(StreamRefused) as caught:
        map_all(kind, address, [b"a"] * 9)
    assert caught.value.reason == "DRAINING"
    assert caught.value.retryable


def test_send_moves_too() -> None:
    with serving(Servicer(leaving_after(1, []), answering())) as address, Client(address) as client:
        with client.deferred_cpu(**ARGUMENTS) as stream:
            ids = [stream.send(b"a")]
            assert len(list(stream.events())) == 2
            ids.append(stream.send(b"b"))
            assert len(list(stream.events())) == 2
        assert stream.summary is not None
        assert stream.summary.completed_count == 2
    assert ids == [1, 2]


@pytest.mark.asyncio
async def test_asyncio_send_moves_too() -> None:
    with serving(Servicer(leaving_after(1, []), answering())) as address:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            ids = [await stream.send(b"a")]
            events = [event async for event in stream.events()]
            ids.append(await stream.send(b"b"))
            events += [event async for event in stream.events()]
    assert ids == [1, 2]
    assert len(events) == 4
