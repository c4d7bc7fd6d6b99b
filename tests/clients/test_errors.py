"""Every way in which a call can end badly, and the one error that each becomes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from monopath import (
    AsyncClient,
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    FieldViolation,
    ProtocolError,
    RequestRefused,
    StreamBroken,
    StreamClosed,
    StreamErrorReason,
    StreamRefused,
)
from monopath.v1 import error_pb2, event_pb2, service_pb2
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, map_all
from tests.clients.fake_server import Gate, Script, Servicer, answering, holding, scripted, serving
from tests.clients.relay import relay

BAD_CONFIG = error_details_pb2.BadRequest(
    field_violations=[
        error_details_pb2.BadRequest.FieldViolation(field="config.processor", description="Expected one, got none"),
        error_details_pb2.BadRequest.FieldViolation(field="config.output", description="Expected one, got none"),
    ]
)
VIOLATIONS = (
    FieldViolation("config.processor", "Expected one, got none"),
    FieldViolation("config.output", "Expected one, got none"),
)


def refusing(*, tell_first: bool, details: tuple[Any, ...] = ()) -> Script:
    """Return the script of a server that refuses the config, with or without the failure event before the status."""

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        if tell_first:
            violations = [error_pb2.FieldViolation(field=v.field, description=v.description) for v in VIOLATIONS]
            yield wire.CPU.failure(error_pb2.STREAM_ERROR_REASON_CONFIG_INVALID, "bad config", violations)
            for _ in requests:
                pass
        context.set_trailing_metadata(wire.details(3, "bad config", *details))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bad config")

    return script


@KINDS
@pytest.mark.parametrize(("tell_first", "with_details"), [(True, True), (True, False), (False, True)])
def test_a_refused_config_names_every_field(kind: str, tell_first: bool, with_details: bool) -> None:
    details = (wire.error_info("CONFIG_INVALID"), BAD_CONFIG) if with_details else ()
    with (
        serving(Servicer(refusing(tell_first=tell_first, details=details))) as address,
        pytest.raises(StreamRefused) as caught,
    ):
        map_all(kind, address, [b"a"])
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.reason is StreamErrorReason.CONFIG_INVALID
    assert caught.value.violations == VIOLATIONS
    assert not caught.value.retryable
    assert "config.output: Expected one, got none" in str(caught.value)


def breaking(*, end_item: bool, status: grpc.StatusCode | None, details: tuple[Any, ...] = ()) -> Script:
    """Return the script of a server that takes one item, tells a failure, and ends after the half-close."""

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        first = next(requests).item
        yield wire.CPU.failure(error_pb2.STREAM_ERROR_REASON_REPLIES_UNREAD, "too slow")
        for _ in requests:
            pass
        if end_item:
            yield from wire.CPU.whole_item(first.id)
        if status is not None:
            context.set_trailing_metadata(wire.details(status.value[0], "too slow", *details))
            context.abort(status, "too slow")

    return script


@KINDS
@pytest.mark.parametrize("status", [None, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE])
def test_a_failure_told_in_the_stream_and_the_status_are_one_error(kind: str, status: grpc.StatusCode | None) -> None:
    with (
        serving(Servicer(breaking(end_item=True, status=status))) as address,
        pytest.raises(StreamBroken) as caught,
    ):
        map_all(kind, address, [b"a"] * 10)
    assert caught.value.reason == "REPLIES_UNREAD"
    assert caught.value.message == "too slow"
    assert caught.value.code is (status or grpc.StatusCode.DEADLINE_EXCEEDED)


def test_results_that_came_before_the_failure_are_yielded_before_it_is_raised() -> None:
    ids = []
    script = breaking(end_item=True, status=grpc.StatusCode.DEADLINE_EXCEEDED)
    with (
        serving(Servicer(script)) as address,
        Client(address) as client,
        pytest.raises(StreamBroken),
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        for result in stream.map([b"a"] * 10):
            ids.append(result.id)
    assert ids == [1]


@KINDS
def test_nothing_more_is_sent_once_a_failure_was_told(kind: str) -> None:
    told = Gate()
    received: list[int] = []
    limits = event_pb2.StreamLimits()
    limits.CopyFrom(wire.LIMITS)
    limits.max_unfinished_items, limits.max_unfinished_bytes = 64, 1 << 30

    def script(requests: Iterator[Any], _context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready(limits=limits)
        received.append(next(requests).item.id)
        yield wire.CPU.failure(error_pb2.STREAM_ERROR_REASON_INTERNAL)
        yield wire.CPU.plan(received[0])
        told.wait()
        received.extend(request.item.id for request in requests)

    with serving(Servicer(script)) as address, pytest.raises(StreamBroken):
        map_all(kind, address, [bytes(1 << 20)] * 64, on_plan=lambda _plan: told.open())
    # Some are on their way in windows and buffers; 64 MiB do not fit there.
    assert len(received) < 64


@KINDS
@pytest.mark.parametrize("reason", ["STREAM_ERROR_REASON_OVERLOADED", "OVERLOADED"])
def test_a_retryable_refusal_says_when_to_come_back(kind: str, reason: str) -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(2500)

    def script(_requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        context.set_trailing_metadata(wire.details(8, "full", wire.error_info(reason), retry))
        yield from ()
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")

    with serving(Servicer(script)) as address, pytest.raises(StreamRefused) as caught:
        map_all(kind, address, [b"a"])
    assert caught.value.reason is StreamErrorReason.OVERLOADED
    assert caught.value.retryable
    assert caught.value.retry_after_seconds == 2.5


@KINDS
@pytest.mark.parametrize(
    "details", [(wire.error_info("NEW_REASON"),), (wire.error_info("CONFIG_INVALID", "other.domain"),), ()]
)
def test_statuses_of_others_keep_their_code_and_message(kind: str, details: tuple[Any, ...]) -> None:
    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        context.set_trailing_metadata(wire.details(9, "no", *details))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no")

    with serving(Servicer(script)) as address, pytest.raises(StreamBroken) as caught:
        map_all(kind, address, [b"a"])
    ours = details and details[0].domain == wire.DOMAIN
    assert caught.value.reason == ("NEW_REASON" if ours else "")
    assert (caught.value.code, caught.value.message) == (grpc.StatusCode.FAILED_PRECONDITION, "no")
    assert not caught.value.retryable


@KINDS
def test_details_that_cannot_be_read_do_not_hide_the_status(kind: str) -> None:
    def script(_requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff\xff"),))
        yield from ()
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")

    with serving(Servicer(script)) as address, pytest.raises(StreamRefused) as caught:
        map_all(kind, address, [b"a"])
    assert caught.value.code is grpc.StatusCode.PERMISSION_DENIED


@KINDS
def test_an_early_end_while_the_client_writes_keeps_its_status(kind: str) -> None:
    """grpc.aio alone reports INTERNAL for about half of these: grpc#36066."""

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        next(requests)
        context.set_trailing_metadata(wire.details(3, "cut", wire.error_info("PAYLOAD_UNKNOWN")))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "cut")

    seen = []
    with serving(Servicer(script)) as address:
        for _ in range(20):
            with pytest.raises(StreamBroken) as caught:
                map_all(kind, address, [bytes(200_000)] * 8)
            seen.append((caught.value.code, caught.value.reason))
    assert set(seen) == {(grpc.StatusCode.INVALID_ARGUMENT, "PAYLOAD_UNKNOWN")}


@KINDS
def test_a_server_that_is_not_there_is_a_failed_connection(kind: str) -> None:
    with socket.socket() as taken:
        # Bound and not listening: nobody else gets the port, and connections to it are refused.
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionFailed) as caught:
            map_all(kind, f"127.0.0.1:{taken.getsockname()[1]}", [b"a"])
    assert caught.value.retryable
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE


@KINDS
def test_a_connection_that_is_lost_mid_stream_is_a_failed_connection(kind: str) -> None:
    arrived = Gate()

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        next(requests)
        arrived.open()
        for _ in requests:
            pass

    with (
        serving(Servicer(script)) as address,
        relay(address, cut_after=arrived) as relayed,
        pytest.raises(ConnectionFailed),
    ):
        map_all(kind, relayed, [b"a"])


@KINDS
def test_the_callers_own_deadline_bounds_the_whole_stream(kind: str) -> None:
    with serving(Servicer(holding())) as address, pytest.raises(DeadlineExceeded) as caught:
        map_all(kind, address, [b"a"], timeout_seconds=0.5)
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


@KINDS
def test_an_old_server_refuses_a_method_that_it_does_not_know(kind: str) -> None:
    with futures.ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with pytest.raises(StreamRefused) as caught:
                map_all(kind, f"127.0.0.1:{port}", [b"a"])
        finally:
            server.stop(0).wait(30)
    assert caught.value.code is grpc.StatusCode.UNIMPLEMENTED


def test_a_stream_that_failed_goes_on_raising_what_it_ended_with() -> None:
    script = breaking(end_item=True, status=grpc.StatusCode.DEADLINE_EXCEEDED)
    with serving(Servicer(script)) as address, Client(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
        with pytest.raises(StreamBroken):
            list(stream.map([b"a"] * 3))
        for again in (lambda: stream.send(b"a"), lambda: list(stream.map([b"a"])), stream.finish):
            with pytest.raises(StreamBroken):
                again()


def test_a_closed_stream_says_so() -> None:
    with serving(Servicer(answering())) as address, Client(address) as client:
        unopened = client.deferred_cpu(**ARGUMENTS)
        with pytest.raises(StreamClosed):
            unopened.send(b"a")
        with client.deferred_cpu(**ARGUMENTS) as stream:
            list(stream.map([b"a"]))
        with pytest.raises(StreamClosed):
            stream.send(b"a")
        with pytest.raises(StreamClosed):
            list(stream.map([b"a"]))


@pytest.mark.asyncio
async def test_a_closed_asyncio_stream_says_so() -> None:
    with serving(Servicer(answering())) as address:
        async with AsyncClient(address) as client:
            async with client.deferred_cpu(**ARGUMENTS) as stream:
                pass
            with pytest.raises(StreamClosed):
                await stream.send(b"a")


@KINDS
def test_a_refused_unary_call_names_every_field(kind: str) -> None:
    def refuse(_request: Any, context: grpc.ServicerContext) -> Any:
        context.set_trailing_metadata(wire.details(3, "no", wire.error_info("REQUEST_INVALID"), BAD_CONFIG))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")

    async def run(address: str) -> None:
        async with AsyncClient(address) as client:
            await client.plan([(1, 1)], preset="kimi-k3")

    with serving(Servicer(answering(), unary=refuse)) as address, pytest.raises(RequestRefused) as caught:
        if kind == "sync":
            with Client(address) as client:
                client.plan([(1, 1)], preset="kimi-k3")
        else:
            asyncio.run(run(address))
    assert caught.value.reason is StreamErrorReason.REQUEST_INVALID
    assert caught.value.violations == VIOLATIONS


def test_plans_that_are_not_the_ones_asked_for_break_the_grammar() -> None:
    reply = service_pb2.PlanResponse(images=[service_pb2.PlannedImage(id=2)])
    with (
        serving(Servicer(answering(), unary=lambda _request, _context: reply)) as address,
        Client(address) as client,
        pytest.raises(ProtocolError),
    ):
        client.plan([(1, 1)], preset="kimi-k3")


@KINDS
def test_a_server_that_never_ends_a_half_closed_stream_is_left(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monopath._stream.CLOSE_GRACE_SECONDS", 0.2)
    monkeypatch.setattr("monopath._async_stream.CLOSE_GRACE_SECONDS", 0.2)
    over = Gate()

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        yield from scripted(wire.CPU.ready())(requests, _context)
        over.wait()

    with serving(Servicer(script)) as address:
        try:
            with pytest.raises(ProtocolError, match="end within"):
                map_all(kind, address, [])
        finally:
            over.open()
