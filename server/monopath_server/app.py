"""Builds and runs the server: settings, engines, services, start, drain, stop."""

from __future__ import annotations

import asyncio
import logging
from typing import Self

import grpc
from grpc_health.v1 import health_pb2_grpc

from monopath_server.engine.engines import Engines
from monopath_server.serving.handlers import preprocessing_handlers
from monopath_server.serving.health import Health
from monopath_server.serving.listener import Listener
from monopath_server.serving.service import PreprocessingServicer
from monopath_server.settings import Settings
from monopath_server.telemetry.server_parts import ServerParts
from monopath_server.telemetry.telemetry import Telemetry

__all__ = ["AddressError", "Server"]

logger = logging.getLogger(__name__)

_NO_AGE = 2**31 - 1
"""gRPC's own value."""


class AddressError(OSError):
    """The server cannot listen at its address."""


class Server:
    """One server in this event loop. As a context manager it is drained and stopped on the way out."""

    def __init__(self, settings: Settings) -> None:
        """Raises `SecurityError` for settings with which no server should listen."""
        self._settings = settings
        self._listener = Listener(settings.address, settings.security)
        self.telemetry = Telemetry(settings.telemetry)
        self.engines = Engines(settings, self._on_worker_health, self.telemetry.observer)
        self._servicer = PreprocessingServicer(settings, self.engines, self.telemetry.observer)
        self._health = Health()
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._health_changes: set[asyncio.Future[None]] = set()
        self._server = grpc.aio.server(
            interceptors=self._listener.interceptors, options=[*_options(settings), *self._listener.options]
        )
        self._server.add_generic_rpc_handlers((preprocessing_handlers(self._servicer),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._listener.add_services(self._server)
        self.address = settings.address
        """Where the server listens; after `start` with the port that was chosen."""

    async def start(self) -> None:
        """Warm the transforms up, listen, and become ready.

        Raises:
            AddressError: the address cannot be listened at.
            RuntimeError: the arithmetic of this installation is not what it must be (`transforms.self_check`).
        """
        self._loop = asyncio.get_running_loop()
        self._open_telemetry()
        try:
            await self._start()
        except BaseException:
            await self.telemetry.close()
            raise

    async def _start(self) -> None:
        await self.engines.warm_up()
        await self._health.set_ready(False)
        await self._health.set_alive()
        try:
            self.address = self._listener.listen(self._server)
        except RuntimeError as error:
            raise AddressError(f"Cannot listen at {self._settings.address}") from error
        await self._server.start()
        await self._health.set_ready(True)

    async def stop(self) -> None:
        """Stop without losing what was accepted: readiness off, lame duck, no new streams, live ones asked to end."""
        self._is_stopping = True
        await self._health.set_ready(False)
        await asyncio.sleep(self._settings.lame_duck_seconds)
        stopping = asyncio.create_task(self._server.stop(self._settings.grace_seconds))
        await asyncio.sleep(0)  # let the listener close before clients are told to go elsewhere
        self._health.end_watches()
        self._servicer.start_draining()
        await stopping
        await self._servicer.wait_until_left(1.0)
        await self.engines.close()
        await self.telemetry.close()

    async def kill(self) -> None:
        """End a `stop` that is under way at once; streams that are still open end UNAVAILABLE."""
        await self._server.stop(0)

    def _open_telemetry(self) -> None:
        """Before the warm-up, which takes a while: probes are answered meanwhile."""
        try:
            self.telemetry.open(
                ServerParts(self._listener, self._servicer, self.engines, self._health, lambda: self._is_stopping)
            )
        except OSError as error:
            raise AddressError(f"Cannot listen at {self._settings.telemetry.metrics_address}") from error

    def _on_worker_health(self, is_healthy: bool) -> None:
        """Workers died, or work again; told from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._set_worker_health, is_healthy)

    def _set_worker_health(self, is_healthy: bool) -> None:
        if not self._is_stopping:
            task = asyncio.ensure_future(self._health.set_ready(is_healthy))
            self._health_changes.add(task)
            task.add_done_callback(self._health_changes.discard)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        await self.stop()


def _options(settings: Settings) -> list[tuple[str, int]]:
    connection_age_ms = int(settings.max_stream_age_seconds * 1000 / 2) or _NO_AGE
    return [
        ("grpc.max_receive_message_length", settings.max_request_bytes),
        # A second server on the same port must fail loudly instead of sharing it.
        ("grpc.so_reuseport", 0),
        # With it a stream's window grows to megabytes, which no budget counts. Large messages do not need it: gRPC lets
        # in whatever a reader waits for.
        ("grpc.http2.bdp_probe", 0),
        # Clients may ping every 10 seconds while an item is long; the default cuts them off (too_many_pings).
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # A proxy that pushes back leaves pings unanswered; the defaults then kill its connection.
        ("grpc.http2.ping_timeout_ms", 300_000),
        ("grpc.keepalive_timeout_ms", 300_000),
        # A client asks its name server again only when it makes a connection: without an age it never learns of a new
        # replica. Streams are left alone (there is no grace for them); a stream that is asked to move finds a new
        # connection.
        ("grpc.max_connection_age_ms", min(connection_age_ms, _NO_AGE)),
    ]
