"""A server inside the calling process, for programs that have no event loop of their own."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from monopath_server import event_loop
from monopath_server.app import Server
from monopath_server.settings import Settings

__all__ = ["embedded_server"]

# `sockaddr_un` has room for 107 bytes of path.
_MAX_SOCKET_PATH_BYTES = 100
_GRACE_SECONDS = 1.0


@contextlib.contextmanager
def embedded_server(settings: Settings | None = None) -> Iterator[str]:
    """Run a server on a unix socket that only this user can reach, and give its address (`unix:/path`).

    The server has a thread and an event loop of its own. On every way out, Ctrl-C included, it is stopped and its
    socket is removed; close the streams to it before, or they are ended after a second. `settings.address`, the lame
    duck and the grace are not used.

    Raises:
        RuntimeError: the arithmetic of this installation is not what it must be.
    """
    folder = _private_folder()
    try:
        address = f"unix:{folder / 'socket'}"
        settings = replace(settings or Settings(), address=address, lame_duck_seconds=0.0, grace_seconds=_GRACE_SECONDS)
        with _running(settings):
            yield address
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _running(settings: Settings) -> Iterator[None]:
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(
        target=lambda: event_loop.run(_serve(settings, started)), name="monopath-embedded", daemon=True
    )
    thread.start()
    try:
        loop, stop = started.result()
    except BaseException:
        # Cancelled by Ctrl-C before the start was over: the thread sees that nobody waits and ends by itself.
        started.cancel()
        thread.join()
        raise
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _serve(settings: Settings, started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    stop = asyncio.Event()
    try:
        server = Server(settings)
        await server.start()
    except BaseException as error:
        if not started.cancelled():
            started.set_exception(error)
        return
    with contextlib.suppress(Exception):
        # Raises where the caller has gone: then there is nothing to wait for.
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
    await server.stop()


def _private_folder() -> Path:
    """Make a folder that only this user can read, under a path that is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="monopath-"))
    if len(bytes(folder / "socket")) > _MAX_SOCKET_PATH_BYTES:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="monopath-", dir="/tmp"))
    return folder
