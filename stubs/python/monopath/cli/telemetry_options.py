"""The options of `monopath serve` that say what operators see of it, and what becomes of them."""

from __future__ import annotations

import importlib
import os
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

import typer

from monopath.cli.faults import UserFault
from monopath.cli.listening import check_address
from monopath_server.telemetry.logs import LogFormat
from monopath_server.telemetry.settings import TelemetrySettings

__all__ = ["LogFormatOption", "MetricsAddressOption", "OtlpEndpointOption", "telemetry_settings"]

_OTEL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

LogFormatOption: TypeAlias = Annotated[
    LogFormat,
    typer.Option(envvar="MONOPATH_LOG_FORMAT", help="How the log on stderr is written: one line for each record."),
]
MetricsAddressOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="MONOPATH_METRICS_ADDRESS",
        metavar="ADDRESS",
        help="Where /metrics (Prometheus), /readyz and /livez are served over HTTP: host:port. There is no "
        "authentication, and nothing in it of what clients send.",
        show_default=False,
    ),
]
OtlpEndpointOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="MONOPATH_OTLP_ENDPOINT",
        metavar="URL",
        help="Where a span of each image goes, by OTLP over gRPC: http://host:port, or https://. Otherwise what "
        f"{_OTEL_VARIABLES[1]} says, if anything. Other OTEL_ variables hold too.",
        show_default=False,
    ),
]


def telemetry_settings(metrics_address: str | None, otlp_endpoint: str | None) -> TelemetrySettings:
    """Check the options.

    Raises:
        UserFault: one of them is wrong, its library is not installed, or the address cannot be listened at.
    """
    if metrics_address is not None:
        host, _, port = metrics_address.rpartition(":")
        if not host or not port.isdigit() or metrics_address.startswith("unix:"):
            raise UserFault(f"--metrics-address: expected host:port, got {metrics_address}")
        _check_installed("--metrics-address", "prometheus_client", "server")
        check_address(metrics_address)
    endpoint = otlp_endpoint or next(filter(None, map(os.environ.get, _OTEL_VARIABLES)), None)
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserFault(f"--otlp-endpoint: expected http://host:port or https://host:port, got {endpoint}")
        _check_installed("--otlp-endpoint", "opentelemetry.exporter.otlp.proto.grpc", "telemetry")
    return TelemetrySettings(metrics_address, endpoint)


def _check_installed(option: str, module: str, extra: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        text = f"{option} needs monopath[{extra}] ({error.name} is not installed): pip install 'monopath[{extra}]'"
        raise UserFault(text) from None
