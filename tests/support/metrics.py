"""A server whose metrics are on, and what its port for operators answers."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from monopath_server.app import Server
from monopath_server.settings import Settings
from monopath_server.telemetry.settings import TelemetrySettings
from tests.support.server import quick_settings

__all__ = ["Answer", "Series", "Snapshot", "fetch", "metered_settings", "scrape"]

Series = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What HTTP answered."""

    status: int
    content_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All series at one moment."""

    values: Mapping[Series, float]

    def value(self, name: str, **labels: str) -> float:
        """The value of a series. Raises KeyError where there is none."""
        return self.values[name, frozenset(labels.items())]

    def change(self, before: Snapshot, name: str) -> dict[str, float]:
        """What moved of a metric: how far, by the values of its labels."""
        found: dict[str, float] = {}
        for series, value in self.values.items():
            if series[0] == name and (moved := value - before.values.get(series, 0)):
                found["/".join(text for _, text in sorted(series[1]))] = moved
        return found


def metered_settings(**changes: object) -> Settings:
    """Settings for tests, with metrics at a free port."""
    return quick_settings(telemetry=TelemetrySettings(metrics_address="127.0.0.1:0"), **changes)


async def fetch(server: Server, path: str, method: str = "GET") -> Answer:
    """Ask the port for operators."""
    address = server.telemetry.metrics_address
    assert address is not None

    def ask() -> Answer:
        connection = http.client.HTTPConnection(address, timeout=10)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return Answer(response.status, response.getheader("Content-Type", ""), response.read().decode())
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


async def scrape(server: Server) -> Snapshot:
    """Ask for the metrics."""
    answer = await fetch(server, "/metrics")
    assert answer.status == 200
    return Snapshot(
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }
    )
