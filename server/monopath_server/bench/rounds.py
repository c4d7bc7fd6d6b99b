"""Rounds in which the things that are compared take turns, and samples of things that are short."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from monopath_server.bench.progress import Meter
from monopath_server.bench.sheet import Reading, Sheet

__all__ = ["Action", "Sampler", "Spent", "run_rounds"]

Action: TypeAlias = Callable[[], Iterable[Reading]]
"""Measures something once."""

_MAX_REPETITIONS = 5000
_THREADED_SECONDS = 0.2
"""Threads take some milliseconds until all of them run, and as long where not all of them do any more: shorter samples
say less of them than of the scheduler."""


def run_rounds(
    actions: Sequence[Action], sheet: Sheet, meter: Meter, *, min_rounds: int, max_rounds: int, seconds: float
) -> None:
    """Run all actions in each round, each time beginning with another one, until `seconds` or the rounds are over."""
    started = time.perf_counter()
    for number in range(max_rounds):
        spent_seconds = time.perf_counter() - started
        if number >= min_rounds and spent_seconds >= seconds:
            break
        shift = number % len(actions)
        for action in (*actions[shift:], *actions[:shift]):
            for reading in action():
                sheet.record(reading)
        meter.move(max((number + 1) / max_rounds, (time.perf_counter() - started) / max(seconds, 1e-9)))


@dataclass(frozen=True, slots=True)
class Spent:
    """What one repetition took."""

    wall_ms: float
    cpu_ms: float
    """Processor time of the thread."""


class Sampler:
    """Repeats a piece of work so often that a sample is long enough for the clock."""

    def __init__(self, work: Callable[[], object], sample_seconds: float) -> None:
        """Run the work twice, for what is slow the first time only, and choose the number of repetitions."""
        self._work = work
        work()
        started = time.perf_counter()
        work()
        once_seconds = max(time.perf_counter() - started, 1e-7)
        self._repetitions = _repetitions(sample_seconds, once_seconds)
        self._threaded_repetitions = _repetitions(max(_THREADED_SECONDS, sample_seconds), once_seconds)

    def in_one_thread(self) -> Spent:
        """Sample in the calling thread."""
        cpu_seconds, wall_seconds = time.thread_time(), time.perf_counter()
        self._repeat(self._repetitions)
        wall_seconds = time.perf_counter() - wall_seconds
        cpu_seconds = time.thread_time() - cpu_seconds
        return Spent(1e3 * wall_seconds / self._repetitions, 1e3 * cpu_seconds / self._repetitions)

    def in_threads_ms(self, pool: ThreadPoolExecutor, thread_count: int) -> float:
        """Let so many threads of the pool do the same at once; wall time by the number of all repetitions."""
        started = time.perf_counter()
        for future in [pool.submit(self._repeat, self._threaded_repetitions) for _ in range(thread_count)]:
            future.result()
        return 1e3 * (time.perf_counter() - started) / (self._threaded_repetitions * thread_count)

    def _repeat(self, count: int) -> None:
        for _ in range(count):
            self._work()


def _repetitions(seconds: float, once_seconds: float) -> int:
    return min(max(1, math.ceil(seconds / once_seconds)), _MAX_REPETITIONS)
