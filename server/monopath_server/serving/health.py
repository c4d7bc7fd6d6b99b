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
        self._watches_end = asyncio.Event()

    async def set_ready(self, is_ready: bool) -> None:
        """Say whether new streams are welcome."""
        status = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in READINESS_NAMES:
            await self.set(name, status)

    async def set_alive(self) -> None:
        """Say that the process answers."""
        await self.set(LIVENESS_NAME, health_pb2.HealthCheckResponse.SERVING)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:
        """Tell a client every change of a status, until the server drains."""
        watching = asyncio.ensure_future(super().Watch(request, context))
        ending = asyncio.ensure_future(self._watches_end.wait())
        try:
            await asyncio.wait((watching, ending), return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
                # The last word, whether or not the watch had come to say it.
                unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
                last = self._server_status.get(request.service, unknown)
                await context.write(health_pb2.HealthCheckResponse(status=last))
        finally:
            watching.cancel()
            ending.cancel()

    def end_watches(self) -> None:
        """End every `Watch`, with the status of the moment."""
        self._watches_end.set()
