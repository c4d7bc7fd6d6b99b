"""What an operator can set of a server's telemetry."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TelemetrySettings"]


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """All of it is off unless it is asked for."""

    metrics_address: str | None = None
    """Where `/metrics`, `/readyz` and `/livez` are served over HTTP: `host:port` (port 0: any free one)."""
    otlp_endpoint: str | None = None
    """Where a span of each item goes (OTLP over gRPC): `http://host:port`, or `https://...` with TLS."""
