"""A real server on a free port of this machine, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from monopath_server.settings import DeviceMode, Settings

__all__ = ["quick_settings", "running_server"]


def quick_settings(**changes: object) -> Settings:
    """Settings for tests: a free port, no CUDA, short waits, and no cache, so that every item is made."""
    values: dict[str, object] = {
        "address": "127.0.0.1:0",
        "cuda": DeviceMode.OFF,
        "grace_seconds": 5.0,
        "refusal_drain_seconds": 2.0,
        "cache_bytes": 0,
    }
    return Settings(**{**values, **changes})  # type: ignore[arg-type]  # checked by the dataclass's own use


@contextlib.asynccontextmanager
async def running_server(settings: Settings | None = None) -> AsyncIterator[str]:
    """Start a server in this event loop; gives its address, stops it without loss."""
    from monopath_server.app import Server

    async with Server(settings or quick_settings()) as server:
        yield server.address
