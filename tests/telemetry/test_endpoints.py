"""The port for operators: probes that tell the truth from the start to the end, and requests that are none."""

from __future__ import annotations

import asyncio
import socket

import grpc
import pytest

from monopath_server.app import AddressError, Server
from monopath_server.engine.engines import Engines
from monopath_server.telemetry.collector import ServerCollector
from monopath_server.telemetry.settings import TelemetrySettings
from tests.support.footprint import until
from tests.support.metrics import fetch, metered_settings, scrape
from tests.support.server import quick_settings
from tests.support.stream import Rig, running_rig


async def statuses(server: Server) -> tuple[int, int]:
    """Of `/readyz` and `/livez`."""
    return (await fetch(server, "/readyz")).status, (await fetch(server, "/livez")).status


@pytest.mark.asyncio
async def test_a_server_is_ready_once_it_is_warm_and_no_more_when_it_drains_but_alive_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warm = asyncio.Event()
    warm_up = Engines.warm_up

    async def slow_warm_up(engines: Engines) -> None:
        await warm_up(engines)
        await warm.wait()

    monkeypatch.setattr(Engines, "warm_up", slow_warm_up)
    server = Server(metered_settings())
    starting = asyncio.create_task(server.start())
    await until(lambda: server.telemetry.metrics_address is not None, "the port for operators")
    assert await statuses(server) == (503, 200)
    assert (await scrape(server)).value("monopath_ready") == 0
    warm.set()
    await starting
    assert await statuses(server) == (200, 200)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stream = await Rig(server, channel).open()
        stopping = asyncio.create_task(server.stop())
        await stream.read_until("goaway")
        assert await statuses(server) == (503, 200)
        assert await stream.finish() == "OK"
        await stopping
    with pytest.raises(ConnectionRefusedError):
        await fetch(server, "/livez")


@pytest.mark.asyncio
async def test_a_server_whose_workers_are_dead_is_not_ready() -> None:
    async with running_rig(metered_settings()) as rig:
        rig.server._on_worker_health(False)
        await until(lambda: not rig.server._health.is_ready, "the news")
        assert await statuses(rig.server) == (503, 200)
        rig.server._on_worker_health(True)
        await until(lambda: rig.server._health.is_ready, "the good news")
        assert await statuses(rig.server) == (200, 200)


@pytest.mark.asyncio
async def test_probes_are_answered_while_the_event_loop_is_busy() -> None:
    async with running_rig(metered_settings()) as rig:
        address = rig.server.telemetry.metrics_address
        assert address is not None
        host, _, port = address.rpartition(":")
        # Without an await in between: nobody else runs on the event loop meanwhile.
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
            answer = connection.recv(1000)
    assert answer.startswith(b"HTTP/1.0 200")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/", "GET", 404), ("/metrics/", "GET", 404), ("/readyz?verbose=1", "GET", 200), ("/metrics", "POST", 405)],
)
@pytest.mark.asyncio
async def test_other_requests_get_a_status_that_says_so(path: str, method: str, status: int) -> None:
    async with running_rig(metered_settings()) as rig:
        assert (await fetch(rig.server, path, method)).status == status


@pytest.mark.asyncio
async def test_a_request_that_is_no_http_harms_nobody() -> None:
    async with running_rig(metered_settings()) as rig:
        host, _, port = (rig.server.telemetry.metrics_address or "").rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=10),  # says nothing
            socket.create_connection((host, int(port)), timeout=10) as connection,
        ):
            connection.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
            assert b"400" in connection.recv(1000)
            assert await statuses(rig.server) == (200, 200)


@pytest.mark.asyncio
async def test_metrics_that_cannot_be_read_are_an_answer_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_rig(metered_settings()) as rig:
        monkeypatch.setattr(ServerCollector, "collect", lambda _: 1 / 0)
        answer = await fetch(rig.server, "/metrics")
    assert (answer.status, answer.text) == (500, "The server's log has the details\n")
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.asyncio
async def test_metrics_have_the_content_type_that_prometheus_expects() -> None:
    async with running_rig(metered_settings()) as rig:
        assert (await fetch(rig.server, "/metrics")).content_type.startswith("text/plain; version=")


@pytest.mark.asyncio
async def test_a_port_that_is_taken_ends_the_start_and_a_start_that_fails_leaves_no_port_behind() -> None:
    async with running_rig(metered_settings()) as rig:
        taken = rig.server.telemetry.metrics_address
        second = Server(quick_settings(telemetry=TelemetrySettings(metrics_address=taken)))
        with pytest.raises(AddressError, match=f"Cannot listen at {taken}"):
            await second.start()
        await second.stop()
        third = Server(metered_settings(address=rig.server.address))
        with pytest.raises(AddressError, match=f"Cannot listen at {rig.server.address}"):
            await third.start()
        with pytest.raises(ConnectionRefusedError):
            await fetch(third, "/livez")
        await third.stop()


@pytest.mark.asyncio
async def test_metrics_are_served_over_ipv6_too() -> None:
    async with running_rig(quick_settings(telemetry=TelemetrySettings(metrics_address="[::1]:0"))) as rig:
        assert (rig.server.telemetry.metrics_address or "").startswith("[::1]:")
        assert await statuses(rig.server) == (200, 200)
