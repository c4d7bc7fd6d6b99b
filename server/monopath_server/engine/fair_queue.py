"""A queue in which streams take turns by the work they ask for, so that a large stream cannot starve a small one."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

JobT = TypeVar("JobT")
SWEPT_LANES = 1024


@dataclass(slots=True)
class _Lane(Generic[JobT]):
    """The waiting jobs of one owner."""

    turn: float
    """Work done for the owner so far, on a clock that all owners share."""
    jobs: deque[tuple[float, JobT]] = field(default_factory=deque)


class FairQueue(Generic[JobT]):
    """Start-time fair queueing: the owner that had the least work done for it is next. Safe to use from every thread.

    An owner that comes back after a pause starts where the clock is: it can save nothing up, and owes nothing.
    """

    def __init__(self) -> None:
        self._lanes: dict[Hashable, _Lane[JobT]] = {}
        self._turns: list[tuple[float, int, Hashable]] = []
        self._serials = itertools.count()
        self._now = 0.0
        self._length = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._length

    def push(self, owner: Hashable, cost: float, job: JobT) -> None:
        """Queue a job behind its owner's earlier ones. `cost` is its work, in any unit that all jobs share."""
        with self._lock:
            if len(self._lanes) > SWEPT_LANES:
                self._sweep()
            lane = self._lanes.setdefault(owner, _Lane(self._now))
            if not lane.jobs:
                lane.turn = max(lane.turn, self._now)
                heapq.heappush(self._turns, (lane.turn, next(self._serials), owner))
            lane.jobs.append((cost, job))
            self._length += 1

    def pop(self) -> JobT | None:
        """The next job; None where none waits."""
        with self._lock:
            if not self._turns:
                return None
            turn, _, owner = heapq.heappop(self._turns)
            lane = self._lanes[owner]
            cost, job = lane.jobs.popleft()
            self._length -= 1
            self._now = turn
            lane.turn = turn + cost
            if lane.jobs:
                heapq.heappush(self._turns, (lane.turn, next(self._serials), owner))
            elif not self._turns:
                self._now = lane.turn  # nobody waits, so nobody owes anything
            return job

    def _sweep(self) -> None:
        """Forget owners that owe nothing: a lane that is behind the clock would start there anyhow."""
        idle = [owner for owner, lane in self._lanes.items() if not lane.jobs and lane.turn <= self._now]
        for owner in idle:
            del self._lanes[owner]
