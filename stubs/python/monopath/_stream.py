"""The sync stream."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Self

import grpc

from monopath._core import Opening, Room, StreamCore
from monopath._errors import CallError, ConnectionFailed, ProtocolError
from monopath._messages import AnyRequest, AnyResponse, InputT, Outgoing
from monopath._paths import PathT
from monopath._results import PlanEvent, Result
from monopath._sync_call import StartSyncCall, SyncCall

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import TracebackType

    from monopath._records import Ready, Summary
    from monopath._session import Event

__all__ = ["Stream"]

CLOSE_GRACE_SECONDS = 10.0
"""How long a server may take to end a stream that was half-closed with every item answered."""


class Stream(Generic[PathT, InputT]):
    """A stream of one path. Use it in a `with` statement, which opens it and waits for `ready`.

    Leaving the statement ends the stream: in order where every item has its result, else by cancelling it. One thread
    may send while another one reads.
    """

    def __init__(self, opening: Opening[PathT, InputT], start: StartSyncCall) -> None:
        """For `Client` to call."""
        self._core = StreamCore(opening)
        self._start = start
        self._call: SyncCall | None = None
        self._changed = threading.Condition()
        self._reading = False

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if exc_type is None and self._core.needs_finish():
                self._finish_within_grace()
        finally:
            self.close()

    @property
    def ready(self) -> Ready:
        """The config that holds, its digest and warnings, and what the server takes."""
        return self._core.ready

    @property
    def summary(self) -> Summary | None:
        """What the stream came to. None before `finish`, or before the end of the `with` statement."""
        return self._core.summary

    def map(
        self, images: Iterable[InputT], *, on_plan: Callable[[PlanEvent], None] | None = None
    ) -> Generator[Result[PathT], None, None]:
        """Send images and yield exactly one result for each: features, or the item's error as a value.

        Images are taken lazily, no more at a time than the server takes, and results are read in between. They come in
        the stream's order. Leaving the loop early cancels the items that have no result yet; the stream stays usable.
        `on_plan` is called with each plan as it comes.

        Raises TypeError for what is no image, OSError for a file that cannot be read, RuntimeError where items of
        `send` have no end yet, and a `MonopathError` where the stream ends.
        """
        self._core.check_mappable()
        source = iter(images)
        next_item: Outgoing | None = None
        exhausted = False
        unanswered_ids: set[int] = set()
        try:
            while True:
                while not exhausted:
                    if next_item is None:
                        try:
                            image = next(source)
                        except StopIteration:
                            exhausted = True
                            break
                        next_item = self._core.outgoing(self._core.adapter.load(image))
                    item_id = self._send_if_room(next_item)
                    if item_id is None:
                        break
                    unanswered_ids.add(item_id)
                    next_item = None
                if exhausted and not unanswered_ids:
                    return
                event = self._next_event()
                if isinstance(event, PlanEvent):
                    if on_plan is not None:
                        on_plan(event)
                elif event is not None:
                    unanswered_ids.discard(event.id)
                    yield event
        finally:
            if unanswered_ids:
                self._abandon(unanswered_ids)

    def send(self, image: InputT) -> int:
        """Send one item and return its id. Waits for room; what is received meanwhile is kept for `events`.

        Raises as `map` does.
        """
        outgoing = self._core.outgoing(self._core.adapter.load(image))
        while (item_id := self._send_if_room(outgoing)) is None:
            self._advance(lambda: self._core.room(outgoing) is not Room.AFTER_READING)
        return item_id

    def events(self) -> Iterator[Event[PathT]]:
        """Yield plans and results as they come, until every item sent so far has ended."""
        while (event := self._next_event()) is not None:
            yield event

    def cancel(self, item_id: int) -> bool:
        """Ask the server to drop an item; it still ends exactly once. Returns False where it is too late to ask.

        Raises ValueError for an id that `send` never returned.
        """
        with self._changed:
            return self._write(self._core.cancellation(item_id))

    def release(self, item_id: int) -> bool:
        """Give leased memory of an item back. Features that came inline lease none.

        Returns False where it is too late to tell. Raises ValueError for an id that `send` never returned.
        """
        with self._changed:
            return self._write(self._core.release(item_id))

    def half_close(self) -> None:
        """Tell the server that no more items come. Those that were sent are still answered."""
        with self._changed:
            self._core.half_closed = True
            if self._call is not None:
                self._call.half_close()

    def finish(self) -> Summary | None:
        """Half-close, wait for the stream's end, and return what it came to. Results that come meanwhile are kept."""
        self.half_close()
        self._advance(self._core.has_ended)
        return self._core.summary

    def close(self) -> None:
        """End the stream now, whatever is on its way. Harmless where it has ended."""
        with self._changed:
            self._core.close()
            if self._call is not None:
                self._call.cancel()
            self._changed.notify_all()

    def _open(self) -> None:
        opened = False
        while not opened:
            with self._changed:
                config = self._core.begin_stream()
                self._call = SyncCall(self._start)
                self._call.write((config,))
            self._advance(self._core.has_opened)
            opened = self._core.check_opened()
            if not opened:
                self._advance(self._core.has_ended)

    def _send_if_room(self, outgoing: Outgoing) -> int | None:
        with self._changed:
            match self._core.room(outgoing):
                case Room.YES:
                    assert self._call is not None
                    item_id, requests = self._core.begin_item(outgoing)
                    self._call.write(requests)
                    return item_id
                case Room.AFTER_READING:
                    return None
                case Room.AFTER_MOVING:
                    pass
        self._advance(self._core.has_ended)
        self._open()
        return None

    def _next_event(self) -> Event[PathT] | None:
        """Wait for an event. None where every item has ended, so that none will come."""
        self._advance(self._core.has_news)
        return self._core.events.popleft() if self._core.events else None

    def _abandon(self, item_ids: Iterable[int]) -> None:
        with self._changed:
            cancellations = self._core.abandon(item_ids)
            if self._call is not None:
                self._call.write(cancellations)

    def _write(self, request: AnyRequest | None) -> bool:
        if request is None or self._call is None:
            return False
        self._call.write((request,))
        return True

    def _advance(self, satisfied: Callable[[], bool]) -> None:
        """Read until `satisfied`. Of several threads that wait, one reads for all."""
        with self._changed:
            while not satisfied():
                if self._reading:
                    self._changed.wait()
                else:
                    self._core.check_readable()
                    self._read_one()

    def _read_one(self) -> None:
        """Read one response into the core, which keeps what the stream ended with. The lock is free meanwhile."""
        assert self._call is not None
        call = self._call
        self._reading = True
        self._changed.release()
        status: grpc.RpcError | None = None
        response: AnyResponse | None = None
        try:
            response = call.read()
        except grpc.RpcError as error:
            status = error
        finally:
            self._changed.acquire()
            self._reading = False
            self._changed.notify_all()
        if status is not None:
            self._core.receive_status(status)
        elif response is None:
            self._core.receive_end()
        else:
            call.obey(self._core.receive(response))

    def _finish_within_grace(self) -> None:
        call, late = self._call, threading.Event()
        assert call is not None

        def give_up() -> None:
            late.set()
            call.cancel()

        timer = threading.Timer(CLOSE_GRACE_SECONDS, give_up)
        timer.start()
        try:
            self.finish()
        except ConnectionFailed:
            # Every item has its result: a server that is gone by now has taken nothing with it.
            pass
        except CallError as error:
            if not late.is_set():
                raise
            raise ProtocolError(f"Expected the stream's end within {CLOSE_GRACE_SECONDS} s, got none") from error
        finally:
            timer.cancel()
            timer.join()
