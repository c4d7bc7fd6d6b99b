"""Threads for everything that would block the event loop, and what happens to a job whose caller went away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["CancelToken", "JobCancelled", "Workers"]

ResultT = TypeVar("ResultT")


class JobCancelled(Exception):
    """A job saw its token cancelled and stopped between two stages."""


class CancelToken:
    """Tells a running job that nobody wants its result. A thread cannot be interrupted, so jobs ask between stages."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raise `JobCancelled` if the token was cancelled."""
        if self._event.is_set():
            raise JobCancelled


class Workers:
    """Two pools of threads: one for pixels, and a small one for headers, so that plans never queue behind pixels."""

    def __init__(self, worker_count: int) -> None:
        self._planners = ThreadPoolExecutor(max_workers=2, thread_name_prefix="monopath-plan")
        self._pixels = ThreadPoolExecutor(max_workers=worker_count, thread_name_prefix="monopath-pixels")

    async def plan(self, job: Callable[[], ResultT]) -> ResultT:
        """Run a short job that owns nothing."""
        return await asyncio.get_running_loop().run_in_executor(self._planners, job)

    async def run(self, job: Callable[[], ResultT], token: CancelToken, discard: Callable[[ResultT], None]) -> ResultT:
        """Run a long job.

        If the caller is cancelled, a queued job never starts, a running one is told by `token`, and a result that comes
        all the same is given to `discard`, so that what it owns is released.
        """

        def checked() -> ResultT:
            token.check()
            return job()

        future = self._pixels.submit(checked)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            token.cancel()
            future.cancel()
            future.add_done_callback(lambda done: _discard_result(done, discard))
            raise

    def close(self) -> None:
        """Stop all threads. Queued jobs are dropped; running ones are waited for."""
        self._planners.shutdown(wait=True, cancel_futures=True)
        self._pixels.shutdown(wait=True, cancel_futures=True)


def _discard_result(future: Future[ResultT], discard: Callable[[ResultT], None]) -> None:
    if not future.cancelled() and future.exception() is None:
        discard(future.result())
