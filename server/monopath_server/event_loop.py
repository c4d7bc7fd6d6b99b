"""The event loop that servers run in.

uvloop's turns cost half of asyncio's, and a small image is mostly turns: `bench/LOG.md` has the figures. Where it is
not installed, asyncio's own loop does the same, more slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run"]

ResultT = TypeVar("ResultT")


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine in a loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:  # no wheel for this platform
        return None
    return uvloop.new_event_loop
