"""Streams that are lost under a `map`: its items go to a new one, and the caller sees one result for each id."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from monopath import (
    AsyncClient,
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    GridThw,
    ItemAttemptsExhausted,
    LocalFeatures,
    Resume,
    Size,
    StreamBroken,
    StreamClosed,
    StreamMoved,
    StreamRefused,
)
from monopath.v1 import error_pb2
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, QUICK, map_all
from tests.clients.fake_server import Script, Servicer, answering, serving

LOSSES = [
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.CANCELLED,
]
ORDERS = pytest.mark.parametrize("order", ["as_completed", "as_sent"])


def numbered(count: int) -> list[bytes]:
    """Images that say which one they are."""
    return [bytes([index + 1]) for index in range(count)]


def by_content(item: Any) -> list[Any]:
    """Features from the image, whatever id the item has on this stream."""
    return wire.CPU.whole_item(item.id, item.label, first_value=float(item.image.encoded.data[0]))


def check_all_once(results: list[Any], count: int, *, in_order: bool) -> None:
    """Each id once, with the features of its own image."""
    ids = [result.id for result in results]
    assert sorted(ids) == list(range(1, count + 1))
    assert not in_order or ids == sorted(ids)
    for result in results:
        result.raise_for_error()
        np.testing.assert_array_equal(result.array.reshape(-1), np.arange(12, dtype=np.float32) + result.id)


def dying(
    good_count: int,
    *,
    half_an_item: bool = False,
    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
    reason: str = "",
) -> Script:
    """Return the script of a server that answers some items, perhaps half of one more, and dies."""

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        for request in itertools.islice(requests, good_count):
            yield from by_content(request.item)
        item = next(requests).item
        if half_an_item:
            yield wire.CPU.plan(item.id)
            yield wire.CPU.chunk(item.id, bytes(16))
        if reason:
            context.set_trailing_metadata(wire.details(code.value[0], "dead", wire.error_info(reason)))
        context.abort(code, "dead")

    return script


def refusing(code: grpc.StatusCode, reason: str = "") -> Script:
    """Return the script of a server that ends every stream before it is open."""

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        if reason:
            context.set_trailing_metadata(wire.details(code.value[0], "no", wire.error_info(reason)))
        yield from ()
        context.abort(code, "no")

    return script


@KINDS
@ORDERS
@pytest.mark.parametrize("code", LOSSES)
def test_items_of_a_stream_that_died_go_to_a_new_one(kind: str, order: str, code: grpc.StatusCode) -> None:
    told: list[int] = []
    scripts = dying(3, half_an_item=True, code=code), dying(1, code=code), answering(by_content)
    with serving(Servicer(*scripts)) as address:
        results = map_all(kind, address, numbered(12), order=order, on_plan=lambda plan: told.append(plan.id))
    check_all_once(results, 12, in_order=order == "as_sent")
    assert sorted(told) == list(range(1, 13))


@KINDS
@pytest.mark.parametrize("reason", ["DRAINING", "OVERLOADED"])
def test_a_reason_that_may_pass_is_resumed(kind: str, reason: str) -> None:
    code = grpc.StatusCode.UNAVAILABLE if reason == "DRAINING" else grpc.StatusCode.RESOURCE_EXHAUSTED
    scripts = dying(1, code=code, reason=reason), refusing(code, reason), answering(by_content)
    with serving(Servicer(*scripts)) as address:
        check_all_once(map_all(kind, address, numbered(5)), 5, in_order=False)


@KINDS
@pytest.mark.parametrize("reason", ["INTERNAL", "CLIENT_SILENT", "REPLIES_UNREAD", "ITEM_ID_INVALID"])
def test_a_reason_that_stays_is_raised(kind: str, reason: str) -> None:
    servicer = Servicer(dying(1, code=grpc.StatusCode.INTERNAL, reason=reason))
    with serving(servicer) as address, pytest.raises(StreamBroken) as caught:
        map_all(kind, address, numbered(5))
    assert caught.value.reason == reason


@KINDS
@ORDERS
def test_an_item_whose_attempts_are_used_up_is_a_value_that_says_so(kind: str, order: str) -> None:
    """Image 2 kills every server that gets it."""

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        completed_count = 0
        for request in requests:
            if request.item.image.encoded.data == b"\x02":
                context.abort(grpc.StatusCode.UNAVAILABLE, "killed")
            completed_count += 1
            yield from by_content(request.item)
        yield wire.CPU.summary(completed=completed_count)

    with serving(Servicer(script)) as address:
        results = map_all(kind, address, numbered(8), order=order)
    by_id = {result.id: result for result in results}
    assert sorted(by_id) == list(range(1, 9))
    assert [item_id for item_id, result in by_id.items() if not result.ok] == [2]
    error = by_id[2].error
    assert isinstance(error, ItemAttemptsExhausted)
    assert (error.reason, error.attempt_count, error.retryable) == ("CLIENT_ATTEMPTS_EXHAUSTED", 3, True)
    assert isinstance(error.lost, ConnectionFailed)
    assert error.code is grpc.StatusCode.UNAVAILABLE
    assert "3 streams" in str(error)
    if order == "as_sent":
        assert [result.id for result in results] == list(range(1, 9))


@KINDS
def test_nothing_is_sent_again_where_the_caller_allows_one_attempt(kind: str) -> None:
    received: list[int] = []

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        received.append(next(requests).item.image.encoded.data[0])
        context.abort(grpc.StatusCode.UNAVAILABLE, "dead")

    resume = Resume(max_attempt_count=1, first_wait_seconds=0.01)
    with serving(Servicer(script)) as address:
        results = map_all(kind, address, numbered(3), max_unfinished_items=1, resume=resume)
    assert [type(result.error) for result in results] == [ItemAttemptsExhausted] * 3
    assert received == [1, 2, 3]


@KINDS
def test_a_server_that_is_gone_for_good_raises_what_the_last_opening_ended_with(kind: str) -> None:
    servicer = Servicer(dying(2), refusing(grpc.StatusCode.UNAVAILABLE))
    with serving(servicer) as address, pytest.raises(ConnectionFailed, match="no"):
        map_all(kind, address, numbered(5))
    ends = 0
    while not servicer.ended.empty():
        servicer.ended.get()
        ends += 1
    assert ends == 1 + QUICK.max_opening_count


@KINDS
def test_a_new_stream_that_is_refused_for_good_raises_the_refusal(kind: str) -> None:
    scripts = dying(2), refusing(grpc.StatusCode.FAILED_PRECONDITION, "DEVICE_UNAVAILABLE")
    with serving(Servicer(*scripts)) as address, pytest.raises(StreamRefused) as caught:
        map_all(kind, address, numbered(5))
    assert caught.value.reason == "DEVICE_UNAVAILABLE"


@KINDS
def test_a_new_stream_with_another_config_is_not_used(kind: str) -> None:
    received: list[Any] = []

    def another(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready(config_sha256=b"other" * 6)
        received.extend(requests)

    with serving(Servicer(dying(2), another)) as address, pytest.raises(StreamMoved, match="config"):
        map_all(kind, address, numbered(5))
    assert not received


@KINDS
@ORDERS
def test_a_storm_of_requests_to_move_and_deaths_loses_and_repeats_nothing(kind: str, order: str) -> None:
    def moving(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        first = next(requests).item
        yield wire.CPU.goaway()
        yield from by_content(first)
        count = 1
        for request in requests:
            count += 1
            yield from by_content(request.item)
        yield wire.CPU.summary(completed=count)

    scripts = [script for _ in range(6) for script in (moving, moving, dying(1, half_an_item=True))]
    with serving(Servicer(*scripts, answering(by_content))) as address:
        check_all_once(map_all(kind, address, numbered(60), order=order), 60, in_order=order == "as_sent")


@KINDS
@ORDERS
def test_an_item_that_could_not_be_taken_is_sent_again(kind: str, order: str) -> None:
    refused: set[bytes] = set()

    def answer(item: Any) -> list[Any]:
        data = item.image.encoded.data
        if data[0] % 3 == 0 and data not in refused:
            refused.add(data)
            response = wire.CPU.error(item.id, error_pb2.ITEM_ERROR_REASON_OVERLOADED)
            response.error.retry_after.FromMilliseconds(20)
            return [response]
        return by_content(item)

    with serving(Servicer(answering(answer))) as address:
        check_all_once(map_all(kind, address, numbered(9), order=order), 9, in_order=order == "as_sent")
    assert len(refused) == 3


@KINDS
def test_the_servers_own_error_is_the_result_where_it_never_has_room(kind: str) -> None:
    received: list[int] = []

    def answer(item: Any) -> list[Any]:
        received.append(item.id)
        response = wire.CPU.error(item.id, error_pb2.ITEM_ERROR_REASON_DEVICE_OUT_OF_MEMORY)
        response.error.retry_after.FromMilliseconds(10)
        return [response]

    with serving(Servicer(answering(answer))) as address:
        (result,) = map_all(kind, address, [b"a"])
    assert result.error.reason == "DEVICE_OUT_OF_MEMORY"
    assert received == sorted(set(received))
    assert len(received) == 3


@KINDS
def test_the_callers_time_bounds_all_streams_together(kind: str) -> None:
    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        next(requests)
        context.abort(grpc.StatusCode.UNAVAILABLE, "dead")

    resume = Resume(max_attempt_count=100_000, first_wait_seconds=0.01, max_wait_seconds=0.01)
    with serving(Servicer(script)) as address, pytest.raises(DeadlineExceeded):
        map_all(kind, address, numbered(5), timeout_seconds=1.0, resume=resume)


@pytest.mark.parametrize("streams", [1, 3])
def test_no_thread_is_left_of_streams_that_died(streams: int) -> None:
    resume = Resume(max_attempt_count=20, first_wait_seconds=0.01, max_wait_seconds=0.01)
    scripts = [dying(1) for _ in range(6)]
    with serving(Servicer(*scripts, answering(by_content))) as address:
        before = set(threading.enumerate())
        check_all_once(map_all("sync", address, numbered(30), streams=streams, resume=resume), 30, in_order=False)
        # The server's own worker threads stay.
        left = {thread for thread in set(threading.enumerate()) - before if "ThreadPool" not in thread.name}
        for thread in left:
            thread.join(30)
        assert not [thread for thread in left if thread.is_alive()]


@KINDS
@pytest.mark.parametrize("streams", [1, 2])
def test_finished_features_are_sent_again_whole(kind: str, streams: int) -> None:
    """On the local path, whose items are several messages each."""
    deaths = itertools.count()

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        dies = next(deaths) < 3
        next(requests)
        yield wire.LOCAL.ready()
        items: dict[int, Any] = {}
        received: dict[int, bytes] = {}
        completed_count = 0
        for request in requests:
            if request.HasField("item"):
                items[request.item.id] = request.item
                received[request.item.id] = b""
                continue
            item_id, chunk = request.item_features.id, request.item_features.chunk
            assert chunk.offset_bytes == len(received[item_id])
            received[item_id] += chunk.data
            if dies and completed_count:
                context.abort(grpc.StatusCode.UNAVAILABLE, "dead")
            if len(received[item_id]) == items[item_id].features.size_bytes:
                completed_count += 1
                yield wire.LOCAL.plan(item_id, shape=tuple(items[item_id].features.shape))
                for at in range(0, len(received[item_id]), 1 << 20):
                    yield wire.LOCAL.chunk(item_id, received[item_id][at : at + (1 << 20)], at)
                yield wire.LOCAL.completion(item_id, items[item_id].label)
        yield wire.LOCAL.summary(completed=completed_count)

    rows = 30_000
    features = [
        LocalFeatures(np.full((rows, 3, 2, 2), value, np.float32), Size(3, 2), GridThw(1, 100, 300), token_count=7500)
        for value in range(1, 9)
    ]
    resume = Resume(max_attempt_count=9, first_wait_seconds=0.01)
    with serving(Servicer(script)) as address:
        results = map_all(kind, address, features, method="local", streams=streams, resume=resume)
    assert sorted(result.id for result in results) == list(range(1, 9))
    for result in results:
        assert result.array.shape == (rows, 3, 2, 2)
        assert (result.array == np.float32(result.id)).all()


def test_a_stream_that_died_after_its_last_item_is_opened_again_by_the_next_map() -> None:
    scripts = dying(2), answering(by_content)
    with (
        serving(Servicer(*scripts)) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        first = list(stream.map(numbered(2), resume=QUICK))
        second = list(stream.map([b"\x03", b"\x04"], resume=QUICK))
    check_all_once(first + second, 4, in_order=True)


def test_send_after_a_map_that_lost_its_stream_opens_a_new_one() -> None:
    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        next(requests)
        context.abort(grpc.StatusCode.UNAVAILABLE, "dead")

    resume = Resume(max_attempt_count=1)
    with (
        serving(Servicer(script, answering(by_content))) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        (lost,) = stream.map(numbered(1), resume=resume)
        assert isinstance(lost.error, ItemAttemptsExhausted)
        assert stream.send(b"\x02") == 2
        assert len(list(stream.events())) == 2


def test_the_lower_level_does_not_resume() -> None:
    with (
        serving(Servicer(dying(1))) as address,
        Client(address) as client,
        pytest.raises(ConnectionFailed),
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        stream.send(b"\x01")
        stream.send(b"\x02")
        list(stream.events())


@pytest.mark.asyncio
async def test_closing_ends_a_map_that_waits_for_a_server() -> None:
    resume = Resume(first_wait_seconds=60.0, max_wait_seconds=60.0)
    with serving(Servicer(dying(0), refusing(grpc.StatusCode.UNAVAILABLE))) as address:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            task = asyncio.create_task(anext(stream.map(numbered(1), resume=resume)))
            await asyncio.wait((task,), timeout=0.2)
            assert not task.done()
            await stream.close()
            with pytest.raises(StreamClosed):
                await asyncio.wait_for(task, 10)
