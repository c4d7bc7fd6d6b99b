"""What telemetry reads of a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monopath_server.engine.engines import Engines
from monopath_server.serving.health import Health
from monopath_server.serving.listener import Listener
from monopath_server.serving.service import PreprocessingServicer

__all__ = ["ServerParts"]


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of one server. Read from every thread."""

    listener: Listener
    servicer: PreprocessingServicer
    engines: Engines
    health: Health
    is_stopping: Callable[[], bool]
    """Whether the server was asked to stop."""
