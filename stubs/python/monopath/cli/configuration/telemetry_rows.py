"""Settings that say what operators see of a server."""

from __future__ import annotations

from typing import Final

from monopath.cli.configuration.kinds import Choice, Text
from monopath.cli.configuration.places import Address
from monopath.cli.configuration.setting import Group, Setting
from monopath_server.telemetry.logs import LogFormat

__all__ = ["TELEMETRY_ROWS"]

TELEMETRY_ROWS: Final = (
    Setting(
        "log_format",
        Choice(LogFormat),
        "How the log on stderr is written: one line for each record.",
        Group.TELEMETRY,
        key="telemetry.log_format",
        default=LogFormat.TEXT,
    ),
    Setting(
        "metrics_address",
        Address(may_be_socket=False),
        "Where /metrics (Prometheus), /readyz and /livez are served over HTTP: host:port, of several processes each "
        "the next port. There is no authentication, and nothing in it of what clients send.",
        Group.TELEMETRY,
        sets="telemetry.metrics_address",
        key="telemetry.metrics_address",
    ),
    Setting(
        "otlp_endpoint",
        Text("URL", r"https?://[^/\s]+\S*", "http://host:port or https://host:port"),
        "Where a span of each image goes, by OTLP over gRPC: http://host:port, or https://. Otherwise what "
        "OTEL_EXPORTER_OTLP_ENDPOINT says, if anything. Other OTEL_ variables hold too.",
        Group.TELEMETRY,
        sets="telemetry.otlp_endpoint",
        key="telemetry.otlp_endpoint",
    ),
)
"""In the order in which they are listed."""
