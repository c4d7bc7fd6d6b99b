"""`map` of the sync stream: items to one or several streams, and one result for each, whatever becomes of them."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Generic

from monopath._errors import MonopathError, ProtocolError
from monopath._link import Link
from monopath._mapping_core import MappingCore
from monopath._messages import InputT
from monopath._paths import PathT
from monopath._results import PlanEvent, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from monopath._session import Event

__all__ = ["SyncMapping"]


class SyncMapping(Generic[PathT, InputT]):
    """One `map`.

    A single stream is read by the caller's own thread. Each of several is read by a thread of its own, which stops
    where the caller does not take what is there.
    """

    def __init__(
        self,
        links: Sequence[Link[PathT, InputT]],
        core: MappingCore[PathT, InputT],
        *,
        close_grace_seconds: float,
        keeps_first: bool = True,
    ) -> None:
        """`links` carry the core's lanes, guarded by one condition. They live as long as the mapping.

        With `keeps_first` the first is the caller's stream, and stays usable.
        """
        self._links = links
        self._core = core
        self._changed = links[0].changed
        self._close_grace_seconds = close_grace_seconds
        self._keeps_first = keeps_first
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None
        """What ended one of several streams for good."""
        self._over = False

    def run(
        self, images: Iterable[InputT], on_plan: Callable[[PlanEvent], None] | None
    ) -> Generator[Result[PathT], None, None]:
        """Yield the results."""
        source = iter(images)
        complete = False
        try:
            if len(self._links) > 1 or not self._keeps_first:
                self._start_threads()
            while True:
                while self._wants_item():
                    outgoing = None
                    for image in itertools.islice(source, 1):
                        leader = self._core.leader
                        outgoing = leader.outgoing(leader.adapter.load(image))
                    with self._changed:
                        self._core.add(outgoing)
                        self._send()
                        # Lanes without a stream wait for work to open one for.
                        self._changed.notify_all()
                event = self._take_event()
                if isinstance(event, PlanEvent):
                    if on_plan is not None:
                        on_plan(event)
                elif event is not None:
                    yield event
                    # What the caller has dropped is not to be held here while there is nothing new.
                    del event
                elif self._core.done:
                    break
                elif self._threads:
                    self._wait_for_threads()
                else:
                    self._step(0)
            complete = True
        finally:
            self._end(complete=complete)

    def _wants_item(self) -> bool:
        with self._changed:
            return self._error is None and self._core.wants_item()

    def _take_event(self) -> Event[PathT] | None:
        with self._changed:
            if self._core.events:
                self._changed.notify_all()
                return self._core.events.popleft()
            if self._error is not None:
                raise self._error
        return None

    def _wait_for_threads(self) -> None:
        with self._changed:
            if not (self._core.events or self._core.done or self._error or self._core.wants_item()):
                self._changed.wait(self._core.seconds_to_due())
            self._send()

    def _send(self) -> None:
        """Send what there is room for. With the lock held."""
        for lane, requests in self._core.sendable():
            self._links[lane].write(requests)
            # Only for a change: threads that wait would wake each other for ever.
            self._changed.notify_all()

    def _step(self, lane: int) -> None:
        """Wait for the next thing that a lane has to do, and do it."""
        link, core = self._links[lane], self._links[lane].core
        with self._changed:
            self._send()
            if self._over or (not self._threads and (self._core.events or self._core.done)):
                return
            wait_seconds = self._seconds_to_wait(lane)
            if wait_seconds != 0:
                self._changed.wait(wait_seconds)
                return
        try:
            if core.ended:
                link.open()
                with self._changed:
                    self._core.opened(lane)
            else:
                link.advance(core.news_after_now())
        except MonopathError as error:
            with self._changed:
                if not self._over:
                    self._core.lose(lane, error)
        with self._changed:
            self._core.collect(lane)
            self._send()
            self._changed.notify_all()

    def _seconds_to_wait(self, lane: int) -> float | None:
        """Return how long a lane has nothing to do; None where it will be told. With the lock held."""
        core = self._links[lane].core
        if core.ended:
            return self._core.seconds_to_opening(lane)
        if self._threads:
            # Read even when it waits for nothing: a server that stops wants to be heard.
            return None if self._core.is_ahead else 0
        return self._core.seconds_to_due() if core.usable and core.idle else 0

    def _start_threads(self) -> None:
        self._threads = [
            threading.Thread(target=self._serve, args=(lane,), name=f"monopath-stream-{lane}", daemon=True)
            for lane in range(len(self._links))
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, lane: int) -> None:
        """Carry one of several streams until the mapping is over."""
        link = self._links[lane]
        try:
            while not self._over:
                self._step(lane)
            if not link.core.ended:
                link.advance(link.core.has_ended)
        except Exception as error:
            with self._changed:
                # A stream that is lost when all is done has taken nothing with it.
                if self._error is None and (not self._over or isinstance(error, ProtocolError)):
                    self._error = error
                self._changed.notify_all()

    def _end(self, *, complete: bool) -> None:
        """Leave the caller's stream as it was, and nothing else behind."""
        first = self._links[0]
        with self._changed:
            self._over = True
            if not self._threads:
                # A single stream stays open; what is still to come of it is cancelled.
                first.write(first.core.abandon(self._core.unfinished_ids))
                return
            for link in self._links:
                link.stopped = True
                # One that is still being opened has nothing that is worth waiting for.
                if complete and link.core.opened:
                    link.half_close()
                else:
                    link.cancel()
            self._changed.notify_all()
        late = threading.Timer(self._close_grace_seconds, self._cancel_all)
        late.start()
        for thread in self._threads:
            thread.join()
        late.cancel()
        late.join()
        for link in self._links[1:]:
            link.close()
            first.core.add_summary(link.core.summary)
        if not self._keeps_first:
            first.close()
        with self._changed:
            if not first.core.closed:
                first.core.forget()
                first.stopped = False
        if complete and self._error is not None:
            raise self._error

    def _cancel_all(self) -> None:
        for link in self._links:
            link.cancel()
