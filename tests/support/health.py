"""Questions to a server's health service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["health_status", "watched_statuses"]


async def health_status(channel: grpc.aio.Channel, name: str = "") -> str:
    """The status of a service's name: SERVING, NOT_SERVING."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    response = await stub.Check(health_pb2.HealthCheckRequest(service=name))
    return _status_name(response)


async def watched_statuses(channel: grpc.aio.Channel, name: str = "") -> AsyncIterator[str]:
    """Every status that a `Watch` tells, until the server ends it."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    async for response in stub.Watch(health_pb2.HealthCheckRequest(service=name)):
        yield _status_name(response)


def _status_name(response: health_pb2.HealthCheckResponse) -> str:
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
