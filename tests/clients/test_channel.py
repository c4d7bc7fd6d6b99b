"""The options of our channels, by their effects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from monopath import AsyncClient, Client, ConnectionFailed, DeadlineExceeded, MonopathError, StreamBroken
from monopath._channel import channel_options
from monopath.v1 import error_pb2, service_pb2_grpc
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, map_all
from tests.clients.fake_server import Gate, Servicer, answering, scripted, serving
from tests.clients.relay import relay


def test_a_chunk_of_one_mebibyte_and_its_envelope_are_received() -> None:
    rows = 1 << 14  # times 3 x 2 x 2 x 4 bytes: three quarters of a mebibyte, and then the largest chunk there is
    size = rows * 48

    def answer(item: Any) -> list[Any]:
        parts = [wire.CPU.chunk(item.id, bytes(1 << 20), at << 20) for at in range(3)]
        return [wire.CPU.plan(item.id, shape=(4 * rows, 3, 2, 2)), *parts, wire.CPU.completion(item.id)]

    assert 4 * size == 3 << 20
    with serving(Servicer(answering(answer))) as address:
        (result,) = map_all("sync", address, [b"a"])
    assert result.array.nbytes == 3 << 20


@pytest.mark.parametrize("limit_bytes", [1 << 12, 1 << 23])
def test_the_callers_own_options_replace_ours(limit_bytes: int) -> None:
    failure = wire.CPU.failure(error_pb2.STREAM_ERROR_REASON_INTERNAL, "x" * (3 << 20))
    with (
        serving(Servicer(scripted(wire.CPU.ready(), failure))) as address,
        Client(address, options=[("grpc.max_receive_message_length", limit_bytes)]) as client,
        pytest.raises(StreamBroken) as caught,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        list(stream.map([b"a"]))
    expected = grpc.StatusCode.RESOURCE_EXHAUSTED if limit_bytes < 3 << 20 else grpc.StatusCode.INTERNAL
    assert caught.value.code is expected


def test_two_clients_have_two_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        listener.settimeout(30)
        accepted: list[socket.socket] = []

        def accept() -> None:
            accepted.extend(listener.accept()[0] for _ in range(2))

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        clients = [Client(address), Client(address)]
        streams = [threading.Thread(target=_try_to_open, args=(client,)) for client in clients]
        for stream in streams:
            stream.start()
        acceptor.join(30)
        assert len(accepted) == 2
        for connection in accepted:
            connection.close()
        for client in clients:
            client.close()
        for stream in streams:
            stream.join(30)
            assert not stream.is_alive()


def _try_to_open(client: Client) -> None:
    with pytest.raises(MonopathError), client.deferred_cpu(**ARGUMENTS, timeout_seconds=5):
        pass


def test_options_that_are_known_traps_are_not_among_ours() -> None:
    names = {name for name, _value in channel_options()}
    # gRPC tells nobody of names that it ignores, or that mean something else than they say.
    assert "grpc.http2.min_recv_ping_interval_without_data_ms" not in names
    assert "grpc.keepalive_timeout_ms" not in names


@KINDS
def test_a_server_that_froze_is_noticed_by_pings(kind: str) -> None:
    """Behind a relay that forwards nothing any more; with our own 20 s and 5 s shortened by the caller."""
    arrived, frozen = Gate(), Gate()

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        next(requests)
        arrived.open()
        for _ in requests:
            pass

    options = [("grpc.keepalive_time_ms", 1000), ("grpc.http2.ping_timeout_ms", 500)]
    with serving(Servicer(script)) as address, relay(address, freeze_after=arrived, until=frozen) as relayed:
        try:
            with pytest.raises(ConnectionFailed):
                map_all(kind, relayed, [b"a"], options=options)
        finally:
            frozen.open()


def test_a_silent_stream_is_pinged_for_as_long_as_it_is_silent() -> None:
    """gRPC alone sends two pings and then none: a server that freezes after those would never be noticed."""
    silent, frozen = Gate(), Gate()

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        next(requests)
        silent.open()
        for _ in requests:
            pass

    options = [("grpc.keepalive_time_ms", 1000), ("grpc.http2.ping_timeout_ms", 500)]
    with (
        serving(Servicer(script)) as address,
        relay(address, freeze_after=silent, freeze_after_count=5, until=frozen) as relayed,
    ):
        try:
            with pytest.raises(ConnectionFailed):
                map_all("sync", relayed, [b"a"], options=options)
        finally:
            frozen.open()


@KINDS
def test_a_failed_stream_is_not_repeated_by_grpc_itself(kind: str) -> None:
    """Each attempt is `map`'s own: one call a try, none with the header of a replay."""
    streams: list[dict[str, Any]] = []

    def script(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        next(requests)
        streams.append(dict(context.invocation_metadata()))
        yield from ()
        context.abort(grpc.StatusCode.UNAVAILABLE, "no")

    with serving(Servicer(script)) as address, pytest.raises(ConnectionFailed):
        map_all(kind, address, [b"a"])
    assert len(streams) == 1
    assert "grpc-previous-rpc-attempts" not in streams[0]


def test_a_unix_socket_is_a_target(tmp_path: Any) -> None:
    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        service_pb2_grpc.add_PreprocessingServiceServicer_to_server(Servicer(answering()), server)
        server.add_insecure_port(f"unix:{tmp_path}/s")
        server.start()
        try:
            assert map_all("sync", f"unix:{tmp_path}/s", [b"a"])[0].ok
            assert map_all("asyncio", f"unix:{tmp_path}/s", [b"a"])[0].ok
        finally:
            server.stop(0).wait(30)


@pytest.mark.asyncio
async def test_a_server_that_is_late_is_waited_for_where_the_caller_wants_it() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with AsyncClient(address, wait_for_ready=True) as client:
            with pytest.raises(DeadlineExceeded):
                await client.capabilities(timeout_seconds=0.3)
