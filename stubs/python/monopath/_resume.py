"""How far a `map` goes to get every item its result: how often, and after which waits. No I/O, no clock."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from monopath._errors import CallError, ItemError

__all__ = ["Backoff", "Resume"]


@dataclass(frozen=True, slots=True)
class Resume:
    """How often `map` sends an item and opens a stream again, and how long it waits in between.

    Raises ValueError for counts below 1 and waits that are negative.
    """

    max_attempt_count: int = 3
    """Most times that one item is sent. After as many lost streams it ends with `ItemAttemptsExhausted`.

    Its last attempt is made alone, so that an item that kills servers takes no neighbour with it. 1: nothing is sent
    again.
    """
    retry_items: bool = True
    """Items that the server could not take now (OVERLOADED, DEVICE_OUT_OF_MEMORY) are sent again after the time that it
    names, up to the same count; then its error is the result."""
    max_opening_count: int = 8
    """Most openings in a row that may fail, while no other stream of the `map` is open. What the last one ended with is
    then raised."""
    first_wait_seconds: float = 0.1
    """Before the first new opening. Each one after that is twice as long, and all vary at random by a half."""
    max_wait_seconds: float = 10.0
    """Longest wait. What a server wants to be retried later than this is not retried."""

    def __post_init__(self) -> None:
        if self.max_attempt_count < 1 or self.max_opening_count < 1:
            raise ValueError(
                f"Expected counts of at least 1, got {self.max_attempt_count} attempts and {self.max_opening_count} "
                "openings"
            )
        if not 0 <= self.first_wait_seconds <= self.max_wait_seconds:
            raise ValueError(
                f"Expected waits of at least 0, and the first not above the longest, got {self.first_wait_seconds} and "
                f"{self.max_wait_seconds}"
            )

    def allows_item_retry(self, error: ItemError, attempt_count: int) -> bool:
        """Return whether an item that ended with this error at its latest attempt is to be sent again."""
        wait_seconds = error.retry_after_seconds or 0.0
        return (
            self.retry_items
            and error.retryable
            and attempt_count < self.max_attempt_count
            and wait_seconds <= self.max_wait_seconds
        )

    def wait_seconds(self, failure_count: int, pick: Callable[[], float]) -> float:
        """Return the wait after as many failures in a row. `pick` returns a number from 0 to 1."""
        longest = min(self.max_wait_seconds, self.first_wait_seconds * 2.0 ** min(failure_count - 1, 32))
        return longest * (0.5 + 0.5 * pick())


class Backoff:
    """When one place that carries streams, one after another, may open the next, and when it gives up."""

    def __init__(self, resume: Resume, pick: Callable[[], float] = random.random) -> None:
        """`pick` returns numbers from 0 to 1: what the waits vary by."""
        self._resume = resume
        self._pick = pick
        self._failure_count = 0
        self._failed_opening_count = 0
        self._not_before = 0.0

    def lost(self, error: CallError, now: float, *, was_open: bool) -> bool:
        """Take a stream's bad end. Returns whether another one is to be opened, should no other place have one.

        `now` is the time in seconds, on any clock.
        """
        self._failure_count += 1
        self._failed_opening_count = 0 if was_open else self._failed_opening_count + 1
        asked_seconds = error.retry_after_seconds or 0.0
        self._not_before = now + max(self._resume.wait_seconds(self._failure_count, self._pick), asked_seconds)
        return (
            self._failed_opening_count < self._resume.max_opening_count
            and asked_seconds <= self._resume.max_wait_seconds
        )

    def progressed(self) -> None:
        """An item has ended: what went wrong before is over."""
        self._failure_count = 0

    def wait_seconds(self, now: float) -> float:
        """Return how long to wait before the next opening."""
        return max(0.0, self._not_before - now)
