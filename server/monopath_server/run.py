"""Runs one server in the foreground until a signal, for `monopath serve`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import threading
from collections.abc import Callable

from monopath_server.app import Server
from monopath_server.settings import Settings

__all__ = ["run_server"]

BACKSTOP_SECONDS = 10.0
logger = logging.getLogger(__name__)


async def run_server(settings: Settings, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then stop without losing what was accepted. A second signal ends the grace.

    `on_ready` is called with the address once requests are answered. Raises what `Server.start` raises.
    """
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()
    signalled_again = asyncio.Event()

    def on_signal() -> None:
        (signalled_again if signalled.is_set() else signalled).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    _allow_descriptors()
    server = Server(settings)
    await server.start()
    # What was imported stays for ever, and is most of what there is: without this, a full collection now and then stops
    # all streams for 0.15 s.
    gc.freeze()
    on_ready(server.address)
    await signalled.wait()
    backstop = threading.Timer(settings.lame_duck_seconds + settings.grace_seconds + BACKSTOP_SECONDS, _exit_hard)
    backstop.daemon = True
    backstop.start()
    stopping = asyncio.create_task(server.stop())
    impatience = asyncio.create_task(signalled_again.wait())
    await asyncio.wait((stopping, impatience), return_when=asyncio.FIRST_COMPLETED)
    impatience.cancel()
    if not stopping.done():
        await server.kill()
    await stopping
    backstop.cancel()


def _allow_descriptors() -> None:
    """Connections and segments of shared memory take a descriptor each; a soft limit of 1024 is for `select` alone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _exit_hard() -> None:
    """A decode that never returns would keep the process alive for ever."""
    logger.critical("Work is stuck beyond the grace; ending without it")
    os._exit(1)
