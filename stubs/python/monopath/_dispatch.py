"""Which item of a `map` goes to which stream, how often, and in which order results come. No I/O, no clock.

All streams take from one queue, each up to its credit of items in flight: one whose replica is slow takes fewer. An
item stays here, with its bytes, until it has its one result, whatever becomes of the streams it was sent on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from monopath._errors import CallError, ItemAttemptsExhausted
from monopath._paths import PathT, PreprocessingPath
from monopath._results import PlanEvent, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from monopath._messages import Outgoing
    from monopath._resume import Resume
    from monopath._session import Event

__all__ = ["Assignment", "Dispatch"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """An item that is to be sent on a stream now."""

    lane: int
    item_id: int
    outgoing: Outgoing


@dataclass(slots=True)
class _Unfinished:
    """An item without a result."""

    outgoing: Outgoing
    attempt_count: int = 0
    lost_count: int = 0
    not_before: float = 0.0
    planned: bool = False


@dataclass(slots=True)
class _Lane:
    """One place that carries streams, one after another."""

    item_ids: set[int] = field(default_factory=set)
    """In flight."""
    holds_suspect: bool = False


class Dispatch(Generic[PathT]):
    """The items of one `map`. Every method returns at once; times are seconds on the caller's clock."""

    def __init__(
        self, resume: Resume, path: PreprocessingPath, *, as_sent: bool, lane_count: int, credit_count: int
    ) -> None:
        """`credit_count` is the most items in flight on each of `lane_count` lanes."""
        self.events: deque[Event[PathT]] = deque()
        """Plans and results for the caller to take: of each item at most one plan, and exactly one result."""
        self.exhausted = False
        """The caller's source has no more items."""
        self._resume = resume
        self._path = path
        self._as_sent = as_sent
        self._credit_count = credit_count
        self._lanes = [_Lane() for _ in range(lane_count)]
        self._unfinished: dict[int, _Unfinished] = {}
        self._unfinished_bytes = 0
        # Ids in the order of the source. Waiting ones are sorted when they are looked at: they are few.
        self._waiting_ids: set[int] = set()
        self._unemitted_ids: deque[int] = deque()
        self._held: dict[int, Result[PathT]] = {}

    @property
    def done(self) -> bool:
        """Every item has its result, and no more will come."""
        return self.exhausted and not self._unfinished

    @property
    def unfinished_ids(self) -> list[int]:
        """Items without a result."""
        return sorted(self._unfinished)

    def wants_item(self, max_bytes: int, now: float) -> bool:
        """Return whether the next item is to be taken from the source: one at a time waits for room.

        Not before the caller took what is there already.

        `max_bytes` bounds the bytes of items without a result, save that one item is always taken.
        """
        if self.exhausted or self.events or self._next_id(now) is not None:
            return False
        # Results that wait for their turn take memory as well.
        count = len(self._unemitted_ids) if self._as_sent else len(self._unfinished)
        has_bytes = self._unfinished_bytes < max_bytes or not self._unfinished
        return count <= self._credit_count * len(self._lanes) and has_bytes

    def add(self, item_id: int, outgoing: Outgoing) -> None:
        """Take the source's next item, under an id larger than all before."""
        self._unfinished[item_id] = _Unfinished(outgoing)
        self._unfinished_bytes += outgoing.payload_bytes
        self._waiting_ids.add(item_id)
        if self._as_sent:
            self._unemitted_ids.append(item_id)

    def has_work(self, now: float) -> bool:
        """Return whether an item waits that may be sent now."""
        return self._next_id(now) is not None

    def assign(self, lanes: Iterable[int], has_room: Callable[[int, Outgoing], bool], now: float) -> Assignment | None:
        """Give the next item to the open lane with the fewest in flight that has room for it.

        `lanes` are those that take items; `has_room` says whether a lane's server has room. None where no item waits or
        no lane has room: the first item is not overtaken by smaller ones.
        """
        item_id = self._next_id(now)
        if item_id is None:
            return None
        item = self._unfinished[item_id]
        for number in sorted(lanes, key=lambda one: len(self._lanes[one].item_ids)):
            lane = self._lanes[number]
            if self._has_credit(lane, item) and has_room(number, item.outgoing):
                self._waiting_ids.discard(item_id)
                lane.holds_suspect = self._is_suspect(item)
                item.attempt_count += 1
                lane.item_ids.add(item_id)
                return Assignment(number, item_id, item.outgoing)
        return None

    def receive(self, lane: int, event: Event[PathT], now: float) -> None:
        """Take what a lane's stream told of an item."""
        item = self._unfinished.get(event.id)
        if item is None:
            # Of an item that the caller sent by hand meanwhile.
            self.events.append(event)
            return
        if isinstance(event, PlanEvent):
            if not item.planned:
                item.planned = True
                self.events.append(event)
            return
        self._leave(lane, event.id)
        error = event.error
        if error is not None and self._resume.allows_item_retry(error, item.attempt_count):
            item.not_before = now + (error.retry_after_seconds or self._resume.first_wait_seconds)
            self._waiting_ids.add(event.id)
        else:
            self._finish(event)

    def lose(self, lane: int, error: CallError) -> None:
        """Take back what a lost stream left without an end."""
        for item_id in sorted(self._lanes[lane].item_ids):
            self._leave(lane, item_id)
            item = self._unfinished[item_id]
            item.lost_count += 1
            if item.attempt_count < self._resume.max_attempt_count:
                self._waiting_ids.add(item_id)
                continue
            exhausted = ItemAttemptsExhausted(
                error, attempt_count=item.attempt_count, item_id=item_id, label=item.outgoing.label
            )
            self._finish(Result(item_id=item_id, label=item.outgoing.label, path=self._path, error=exhausted))

    def next_due_seconds(self, now: float) -> float | None:
        """Return how long until an item that was put off may be sent. None where none is."""
        due = [self._unfinished[item_id].not_before for item_id in self._waiting_ids]
        later = [moment - now for moment in due if moment > now]
        return min(later, default=None)

    def _next_id(self, now: float) -> int | None:
        ready_ids = (item_id for item_id in self._waiting_ids if self._unfinished[item_id].not_before <= now)
        return min(ready_ids, default=None)

    def _has_credit(self, lane: _Lane, item: _Unfinished) -> bool:
        if lane.holds_suspect or self._is_suspect(item):
            return not lane.item_ids
        return len(lane.item_ids) < self._credit_count

    def _is_suspect(self, item: _Unfinished) -> bool:
        """It may be what its streams were lost by, and has one attempt left: nothing else shall be lost with it."""
        return item.lost_count > 0 and item.attempt_count + 1 == self._resume.max_attempt_count

    def _leave(self, number: int, item_id: int) -> None:
        lane = self._lanes[number]
        lane.item_ids.discard(item_id)
        lane.holds_suspect = lane.holds_suspect and bool(lane.item_ids)

    def _finish(self, result: Result[PathT]) -> None:
        self._unfinished_bytes -= self._unfinished.pop(result.id).outgoing.payload_bytes
        if not self._as_sent:
            self.events.append(result)
            return
        self._held[result.id] = result
        while self._unemitted_ids and self._unemitted_ids[0] in self._held:
            self.events.append(self._held.pop(self._unemitted_ids.popleft()))
