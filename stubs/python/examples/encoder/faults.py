"""What goes wrong between these processes: what a caller may ask again, and what it may not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["PATIENCE_SECONDS", "ConfigDiffers", "Refused", "Unavailable", "persist"]

PATIENCE_SECONDS = 60.0
"""How long a process is asked again that does not answer: long enough for a killed one to be started anew."""
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 0.5

_ValueT = TypeVar("_ValueT")


class Unavailable(Exception):
    """A process is gone or not ready; the same request may be sent again. Encoding changes nothing, so that is safe."""


class Refused(Exception):
    """The request cannot be served, however often it is sent."""


class ConfigDiffers(Refused):
    """Finished features were made under another config than the preprocessing server's."""


async def persist(call: Callable[[], Awaitable[_ValueT]], *, patience_seconds: float = PATIENCE_SECONDS) -> _ValueT:
    """Return what `call` returns, calling it again while it raises Unavailable.

    Raises the last Unavailable when `patience_seconds` are over.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + patience_seconds
    wait_seconds = _FIRST_WAIT_SECONDS
    while True:
        try:
            return await call()
        except Unavailable:
            if loop.time() + wait_seconds > give_up_at:
                raise
        await asyncio.sleep(wait_seconds * random.uniform(0.5, 1.0))  # noqa: S311 - spreads callers, no secret
        wait_seconds = min(_LONGEST_WAIT_SECONDS, 2 * wait_seconds)
