"""What the telemetry of `monopath serve` takes, besides its settings: variables of OpenTelemetry, and libraries."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace

from monopath.cli.faults import UserFault
from monopath_server.telemetry.settings import TelemetrySettings

__all__ = ["check_telemetry"]

_OTEL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def check_telemetry(settings: TelemetrySettings, environment: Mapping[str, str]) -> TelemetrySettings:
    """Return the settings with what OpenTelemetry's own variables say where nothing else does.

    Raises:
        UserFault: a library that they take is not installed.
    """
    if settings.metrics_address is not None:
        _check_installed("--metrics-address", "prometheus_client", "server")
    endpoint = settings.otlp_endpoint or next(filter(None, map(environment.get, _OTEL_VARIABLES)), None)
    if endpoint is not None:
        _check_installed("--otlp-endpoint", "opentelemetry.exporter.otlp.proto.grpc", "telemetry")
    return replace(settings, otlp_endpoint=endpoint)


def _check_installed(option: str, module: str, extra: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        text = f"{option} needs monopath[{extra}] ({error.name} is not installed): pip install 'monopath[{extra}]'"
        raise UserFault(text) from None
