"""`grpc.health.v1`: readiness and liveness under names of their own, and watches that end when the server drains."""

from __future__ import annotations

import asyncio
from typing import Any

from grpc_health.v1 import health, health_pb2

from monopath.v1 import service_pb2

__all__ = ["LIVENESS_NAME", "READINESS_NAMES", "SERVICE_NAME", "Health"]

SERVICE_NAME = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"].full_name
LIVENESS_NAME = "liveness"
"""SERVING as long as the process answers, also while it drains: a probe must not kill a server that stops well."""
READINESS_NAMES = ("", SERVICE_NAME)
"""SERVING while new streams are welcome."""


class Health(health.aio.HealthServicer):  # type: ignore[misc]  # the package ships no types
    """The standard servicer. Its `Watch` never ends by itself and would hold up every stop for the whole grace."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False
        """New streams are welcome. Safe to read in every thread."""
        self._watches_end = False
        self._changed = asyncio.Event()

    async def set_ready(self, is_ready: bool) -> None:
        """Say whether new streams are welcome."""
        self.is_ready = is_ready
        status = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in READINESS_NAMES:
            await self.set(name, status)
        self._wake_watches()

    async def set_alive(self) -> None:
        """Say that the process answers."""
        await self.set(LIVENESS_NAME, health_pb2.HealthCheckResponse.SERVING)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:
        """Tell a client every change of a status, until the server drains."""
        # Of its own, since a write of the standard one that is cancelled on its way leaves no room for the last word.
        unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        told = None
        while True:
            changed = self._changed
            status = self._server_status.get(request.service, unknown)
            if status != told:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                told = status
            elif self._watches_end:
                return
            else:
                await changed.wait()

    def end_watches(self) -> None:
        """End every `Watch`, with the status of the moment."""
        self._watches_end = True
        self._wake_watches()

    def _wake_watches(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
