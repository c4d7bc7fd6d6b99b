"""Thread pools that are noticed when they die, and replaced."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import TypeVar

__all__ = ["ExecutorUnavailable", "RestartingExecutor"]

ResultT = TypeVar("ResultT")
logger = logging.getLogger(__name__)


class ExecutorUnavailable(Exception):
    """The threads are gone and could not be replaced; the next job tries again."""


class RestartingExecutor:
    """Runs jobs on an executor of a factory, and on a new one where that has died. Safe to use from every thread."""

    def __init__(self, factory: Callable[[], Executor], on_health: Callable[[bool], None] | None = None) -> None:
        """`on_health` is called, in any thread, with False when the executor is found dead, with True once replaced."""
        self._factory = factory
        self._on_health = on_health or (lambda _: None)
        self._executor = factory()
        self._is_closed = False
        self._lock = threading.Lock()
        self.restart_count = 0

    def submit(self, job: Callable[[], ResultT]) -> Future[ResultT]:
        """Queue a job.

        Raises:
            ExecutorUnavailable: there is no executor, and none can be made.
            RuntimeError: after `close`.
        """
        with self._lock:
            if self._is_closed:
                raise RuntimeError("Expected running workers, got closed ones")
            try:
                return self._executor.submit(job)
            except (BrokenExecutor, RuntimeError) as error:
                logger.error("The threads %s are dead and are replaced", self._executor, exc_info=error)
                self._on_health(False)
            try:
                self._executor = self._factory()
                self.restart_count += 1
                future = self._executor.submit(job)
            except Exception as error:
                raise ExecutorUnavailable("The server's threads are gone and could not be replaced yet") from error
            self._on_health(True)
            return future

    def close(self) -> None:
        """Stop all threads. Queued jobs are dropped; running ones are waited for."""
        with self._lock:
            self._is_closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)
