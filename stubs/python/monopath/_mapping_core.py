"""What the sync and the asyncio `map` have in common: everything but waiting."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic

from monopath._dispatch import Dispatch
from monopath._enums import ResultOrder
from monopath._errors import MonopathError
from monopath._messages import AnyRequest, InputT, Outgoing
from monopath._opening import Room
from monopath._paths import PathT
from monopath._results import Result
from monopath._resume import Backoff, Resume

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monopath._core import StreamCore
    from monopath._session import Event

__all__ = ["SEVERAL_STREAMS_CREDIT_COUNT", "MappingCore"]

SEVERAL_STREAMS_CREDIT_COUNT = 8
"""Items in flight on each of several streams: few, so that slow ones take fewer."""
_EVENTS_AHEAD_PER_LANE = 2
"""Plans and results that may be there for the caller to take while streams are still read."""


class MappingCore(Generic[PathT, InputT]):
    """The state of one `map` over lanes, each of which carries one stream after another."""

    def __init__(
        self, cores: Sequence[StreamCore[PathT, InputT]], resume: Resume, *, credit_count: int | None = None
    ) -> None:
        """`cores` are the lanes' streams. The first is the caller's, and is open or was.

        `credit_count` is the most items in flight on each. None: what the server takes, less where there are several.
        """
        first = cores[0]
        if credit_count is None:
            credit_count = first.max_unfinished_items
            if len(cores) > 1:
                credit_count = min(credit_count, SEVERAL_STREAMS_CREDIT_COUNT)
        self._cores = cores
        self._backoffs = [Backoff(resume) for _ in cores]
        self._dispatch: Dispatch[PathT] = Dispatch(
            resume,
            first.adapter.path,
            as_sent=first.order is ResultOrder.AS_SENT,
            lane_count=len(cores),
            credit_count=credit_count,
        )

    @property
    def leader(self) -> StreamCore[PathT, InputT]:
        """The stream whose opening items are made for."""
        return self._cores[0]

    @property
    def events(self) -> deque[Event[PathT]]:
        """Plans and results for the caller to take."""
        return self._dispatch.events

    @property
    def is_ahead(self) -> bool:
        """The caller has so much to take that no more is to be read."""
        return len(self.events) >= _EVENTS_AHEAD_PER_LANE * len(self._cores)

    @property
    def done(self) -> bool:
        """Every item has its result, and no more will come."""
        return self._dispatch.done

    @property
    def unfinished_ids(self) -> list[int]:
        """Items without a result."""
        return self._dispatch.unfinished_ids

    def wants_item(self) -> bool:
        """Return whether the next item is to be taken from the source."""
        max_bytes = max(1, self.leader.ready.limits.max_unfinished_bytes) * len(self._cores)
        return self._dispatch.wants_item(max_bytes, time.monotonic())

    def add(self, outgoing: Outgoing | None) -> None:
        """Take the source's next item. None: there is none."""
        if outgoing is None:
            self._dispatch.exhausted = True
        else:
            self._dispatch.add(self._cores[0].take_id(), outgoing)

    def sendable(self) -> Iterator[tuple[int, Iterable[AnyRequest]]]:
        """Yield lanes, and the requests to send on each now."""
        while assignment := self._dispatch.assign(
            [lane for lane, core in enumerate(self._cores) if core.usable],
            lambda lane, outgoing: self._cores[lane].room(outgoing) is Room.YES,
            time.monotonic(),
        ):
            yield assignment.lane, self._cores[assignment.lane].begin_item(assignment.outgoing, assignment.item_id)
            # An item that is refused at this side has its result already.
            self.collect(assignment.lane)

    def collect(self, lane: int) -> None:
        """Take what a lane's stream told."""
        events = self._cores[lane].events
        while events:
            event = events.popleft()
            if isinstance(event, Result):
                self._backoffs[lane].progressed()
            self._dispatch.receive(lane, event, time.monotonic())

    def opened(self, lane: int) -> None:
        """Take a stream's good opening. Raises StreamMoved where it does not go with the others."""

    def lose(self, lane: int, error: MonopathError) -> None:
        """Take a stream's bad end, and its items back. Raises the error again where no new stream may carry on."""
        self.collect(lane)
        core = self._cores[lane]
        was_open = core.opened
        loss = core.take_loss()
        if loss is None:
            raise error
        self._dispatch.lose(lane, loss)
        others_are_open = any(other.usable for other in self._cores)
        if not self._backoffs[lane].lost(loss, time.monotonic(), was_open=was_open) and not others_are_open:
            raise loss

    def seconds_to_due(self) -> float | None:
        """Return how long until there is something to do though nothing was told, such as to send an item again.

        None where nothing is.
        """
        return self._dispatch.next_due_seconds(time.monotonic())

    def seconds_to_opening(self, lane: int) -> float | None:
        """Return how long until a lane without a stream is to open one; None where there is nothing to send.

        Raises StreamClosed where the caller wants no more of it.
        """
        now = time.monotonic()
        self._cores[lane].check_not_closed()
        if not self._dispatch.has_work(now):
            return self._dispatch.next_due_seconds(now)
        return self._backoffs[lane].wait_seconds(now)
