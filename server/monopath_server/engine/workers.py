"""Threads for everything that would block the event loop, and what happens to a job whose caller went away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from monopath_server.engine.executors import ExecutorUnavailable, RestartingExecutor
from monopath_server.engine.fair_queue import FairQueue

__all__ = ["CancelToken", "JobCancelled", "Workers"]

ResultT = TypeVar("ResultT")


class JobCancelled(Exception):
    """A job saw its token cancelled and stopped between two stages."""


class CancelToken:
    """Tells a running job that nobody wants its result. A thread cannot be interrupted, so jobs ask between stages."""

    __slots__ = ("_event", "owner")

    def __init__(self, owner: Hashable = None) -> None:
        self._event = threading.Event()
        self.owner = owner
        """Whose turn the job takes: streams share the workers out evenly."""

    def cancel(self) -> None:
        """Nobody wants the result any more."""
        self._event.set()

    def check(self) -> None:
        """Raise `JobCancelled` if the token was cancelled."""
        if self._event.is_set():
            raise JobCancelled


class Workers:
    """Two pools of threads: one for pixels, and a small one for headers, so that plans never queue behind pixels."""

    def __init__(
        self,
        worker_count: int,
        *,
        on_health: Callable[[bool], None] | None = None,
        make_executor: Callable[[int, str], Executor] | None = None,
    ) -> None:
        make = make_executor or _thread_pool
        self._planners = RestartingExecutor(lambda: make(2, "monopath-plan"), on_health)
        self._pixels = RestartingExecutor(lambda: make(worker_count, "monopath-pixels"), on_health)
        self._is_closed = False
        self._queue = FairQueue[tuple[Future[Any], Callable[[], Any]]]()

    @property
    def waiting_count(self) -> int:
        """Long jobs that no thread has taken up yet."""
        return len(self._queue)

    async def plan(self, job: Callable[[], ResultT]) -> ResultT:
        """Run a short job that owns nothing."""
        return await asyncio.wrap_future(self._planners.submit(job))

    async def run(
        self, job: Callable[[], ResultT], token: CancelToken, discard: Callable[[ResultT], None], *, cost: float = 1.0
    ) -> ResultT:
        """Run a long job, in the turn of the token's owner. `cost` is its work: pixels, or bytes.

        If the caller is cancelled, a queued job never starts, a running one is told by `token`, and a result that comes
        all the same is given to `discard`, so that what it owns is released.
        """
        future: Future[ResultT] = Future()
        self._queue.push(token.owner, cost, (future, job))
        try:
            turn = self._pixels.submit(self._run_waiting)
        except BaseException:
            future.cancel()
            raise
        deaths: list[BaseException] = []

        def on_turn_over(done: Future[None]) -> None:
            # The threads died before they began the turn: its job must not wait for the next submission.
            error = None if done.cancelled() else done.exception()
            if error is not None and future.cancel():
                deaths.append(error)

        turn.add_done_callback(on_turn_over)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if deaths:
                raise ExecutorUnavailable("The threads died before they began this job") from deaths[0]
            token.cancel()
            future.cancel()
            future.add_done_callback(lambda done: _discard_result(done, discard))
            raise

    def close(self) -> None:
        """Stop all threads. Queued jobs are dropped; running ones are waited for."""
        self._is_closed = True
        self._planners.close()
        self._pixels.close()

    def _run_waiting(self) -> None:
        """Run jobs, each in its turn, until none waits; also those whose own submission died with an executor."""
        while (queued := self._queue.pop()) is not None:
            future, job = queued
            if self._is_closed:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue  # its caller went away; the next one's turn has come
            try:
                result = job()
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:
                # The event loop would take a SystemExit to be meant for itself.
                future.set_exception(RuntimeError(f"A job raised {error!r}"))
            else:
                future.set_result(result)


def _thread_pool(worker_count: int, name: str) -> Executor:
    return ThreadPoolExecutor(max_workers=worker_count, thread_name_prefix=name)


def _discard_result(future: Future[ResultT], discard: Callable[[ResultT], None]) -> None:
    if not future.cancelled() and future.exception() is None:
        discard(future.result())
