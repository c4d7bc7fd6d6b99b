"""Puts together what an operator asked for. Libraries are imported only where they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from monopath_server.observer import ItemFacts, Observer, StreamFacts
from monopath_server.telemetry.logs import LogObserver
from monopath_server.telemetry.server_parts import ServerParts
from monopath_server.telemetry.settings import TelemetrySettings
from monopath_server.telemetry.tally import Tally

__all__ = ["Telemetry"]


class Telemetry:
    """One server's. Off, it is an observer that does nothing."""

    def __init__(self, settings: TelemetrySettings) -> None:
        """Raises ModuleNotFoundError where the library is not installed for something that is asked for."""
        self._settings = settings
        self._closing = contextlib.ExitStack()
        observers: list[Observer] = []
        if LogObserver.is_wanted():
            observers.append(LogObserver())
        self._tally: Tally | None = None
        if settings.metrics_address is not None:
            self._tally = Tally()
            observers.append(self._tally)
        if settings.otlp_endpoint is not None:
            from monopath_server.telemetry import spans as tracing

            spans = tracing.otlp_observer(settings.otlp_endpoint)
            self._closing.callback(spans.close)
            observers.append(spans)
        self.observer = _one(observers)
        """Is to be told of everything."""
        self.metrics_address: str | None = None
        """Where metrics are served; with the port that was chosen, once they are."""

    def open(self, server: ServerParts) -> None:
        """Serve metrics and probes, if they are asked for.

        Raises:
            OSError: the address cannot be listened at.
        """
        if self._settings.metrics_address is None or self._tally is None:
            return
        from prometheus_client import CollectorRegistry, ProcessCollector

        from monopath_server.telemetry.collector import ServerCollector
        from monopath_server.telemetry.endpoints import Endpoints

        registry = CollectorRegistry()
        registry.register(ServerCollector(self._tally, server))
        ProcessCollector(registry=registry)
        endpoints = Endpoints(self._settings.metrics_address, registry, lambda: server.health.is_ready)
        self._closing.callback(endpoints.close)
        self.metrics_address = endpoints.address

    async def close(self) -> None:
        """Serve nothing more, and send what is left."""
        await asyncio.to_thread(self._closing.close)


def _one(observers: Sequence[Observer]) -> Observer:
    match observers:
        case []:
            return Observer()
        case [observer]:
            return observer
        case _:
            return _Several(observers)


class _Several(Observer):
    """Tells each."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.watches_items = any(observer.watches_items for observer in observers)
        self._observers = observers

    def stream_opened(self, stream: StreamFacts, /) -> None:
        for observer in self._observers:
            observer.stream_opened(stream)

    def stream_ended(self, stream: StreamFacts, /) -> None:
        for observer in self._observers:
            observer.stream_ended(stream)

    def goaway_sent(self, stream: StreamFacts, reason: str, /) -> None:
        for observer in self._observers:
            observer.goaway_sent(stream, reason)

    def item_ended(self, stream: StreamFacts, item: ItemFacts, /) -> None:
        for observer in self._observers:
            observer.item_ended(stream, item)

    def batch_formed(self, item_count: int, /) -> None:
        for observer in self._observers:
            observer.batch_formed(item_count)
