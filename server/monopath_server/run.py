"""Runs one server in the foreground until a signal, for `monopath serve`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from monopath_server.app import Server
from monopath_server.settings import Settings

__all__ = ["run_server"]


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
    server = Server(settings)
    await server.start()
    on_ready(server.address)
    await signalled.wait()
    stopping = asyncio.create_task(server.stop())
    impatience = asyncio.create_task(signalled_again.wait())
    await asyncio.wait((stopping, impatience), return_when=asyncio.FIRST_COMPLETED)
    impatience.cancel()
    if not stopping.done():
        await server.kill()
    await stopping
