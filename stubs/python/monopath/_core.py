"""What the sync and the asyncio stream have in common: everything but waiting.

A caller's stream may be carried by several of the server's, one after another: where the server asks to move, the items
it has are awaited, and the rest goes to a new stream under the same config. Where a stream is lost, `map` takes its
items back and has a new one begun.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Generic, Self

import grpc

from monopath._enums import DataType, ResultOrder
from monopath._errors import CallError, MonopathError, ProtocolError, StreamClosed, StreamMoved
from monopath._leases import WriteAnytime
from monopath._messages import AnyRequest, InputT, Outgoing
from monopath._opening import Opening, Room, Wish
from monopath._paths import PathT
from monopath._reading import Received, messages_of
from monopath._session import Event, Session
from monopath._status import Phase, error_code, error_of_failure, error_of_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from monopath._records import Ready, Summary

__all__ = ["StreamCore"]

_MAX_FRUITLESS_MOVES = 3


class StreamCore(Generic[PathT, InputT]):
    """The state of a caller's stream. Every method returns at once."""

    def __init__(self, opening: Opening[PathT, InputT]) -> None:
        if opening.max_unfinished_items is not None and opening.max_unfinished_items < 1:
            raise ValueError(f"Expected max_unfinished_items of at least 1, got {opening.max_unfinished_items}")
        self.adapter = opening.adapter
        self.events: deque[Event[PathT]] = deque()
        """What was received and not yet taken by the caller."""
        self.summary: Summary | None = None
        """The sum of the streams that came to their good end."""
        self.ended = True
        """No stream of the server is open."""
        self.half_closed = True
        """Nothing more may be sent on the server's stream."""
        self.closed = False
        """The caller wants no more of it."""
        self._opening = opening
        self._error: MonopathError | None = None
        self._error_raised = False
        self._ready: Ready | None = None
        self._deadline: float | None = None
        self._next_id = 1
        self._fruitless_moves = 0
        self._lost = False
        self._checked = False
        self._session = self._new_session()

    def sibling(self) -> Self:
        """Return the state of one more stream that is opened as this one was, and has to open to the same config."""
        sibling = type(self)(self._opening)
        sibling._ready, sibling._deadline = self._ready, self._deadline
        return sibling

    def expect(self, ready: Ready) -> None:
        """Have to open to the same config as another stream did. Does nothing where a stream was opened before."""
        if self._ready is None:
            self._ready = ready

    @property
    def ready(self) -> Ready:
        """The latest opening. Raises StreamClosed before there was one."""
        if self._ready is None:
            raise StreamClosed("Expected an open stream, got one that was not opened; use it in a with statement")
        return self._ready

    @property
    def order(self) -> ResultOrder:
        """The order in which results are to come."""
        return self._opening.order

    @property
    def data_type(self) -> DataType:
        """Element type of the features."""
        return self._opening.data_type

    @property
    def opened(self) -> bool:
        """The stream in use has told its `ready`."""
        return self._session.ready is not None

    @property
    def usable(self) -> bool:
        """Items may be sent on the stream in use."""
        return self._checked and not self.half_closed and self._session.sending

    @property
    def max_unfinished_items(self) -> int:
        """Most items in flight on one stream, as the server and the caller said."""
        own, limit = self._opening.max_unfinished_items, max(1, self.ready.limits.max_unfinished_items)
        return limit if own is None else min(own, limit)

    def timeout_seconds(self) -> float | None:
        """Return what is left of the caller's time, which began with the first stream."""
        if self._opening.timeout_seconds is None:
            return None
        if self._deadline is None:
            self._deadline = time.monotonic() + self._opening.timeout_seconds
        return max(0.0, self._deadline - time.monotonic())

    def has_opened(self) -> bool:
        """Return whether `ready` came, or the stream ended without it. Raises what it ended with."""
        return self._session.ready is not None or self.has_ended()

    def has_ended(self) -> bool:
        """Return whether the stream in use came to its good end. Raises what it ended with else."""
        self._raise_error()
        return self.ended

    @property
    def idle(self) -> bool:
        """Every item that was sent has ended."""
        return self._session.idle

    def news_after_now(self) -> Callable[[], bool]:
        """Return what tells whether there is anything new: an event, the end of an item that was abandoned, or of all.

        It raises as `has_ended`.
        """
        session, ended_count = self._session, self._session.ended_count
        return lambda: bool(self.events) or session.ended_count > ended_count or self.has_ended()

    def has_news(self) -> bool:
        """Return whether there is an event to take, or none will come unless more is sent. Raises as `has_ended`."""
        if self.events:
            return True
        self._raise_error()
        return self.idle and self._session.failure is None

    def needs_finish(self) -> bool:
        """Return whether the stream is to be brought to its good end, or what it ended with was never raised."""
        if self._error is not None:
            return not self._error_raised
        return self.idle and not self.ended and not self.closed

    def begin_stream(self) -> AnyRequest:
        """Start over with a new stream of the server, and return its first request.

        Raises StreamMoved where the ones before only ever asked to move, and StreamRefused where this side lacks what
        the transport takes.
        """
        self.check_not_closed()
        moved_fruitlessly = self._session.goaway is not None and not self._session.accepted_count
        self._fruitless_moves = self._fruitless_moves + 1 if moved_fruitlessly else 0
        if self._fruitless_moves >= _MAX_FRUITLESS_MOVES:
            raise StreamMoved(f"Expected a stream that takes items, got {_MAX_FRUITLESS_MOVES} that asked to move")
        self._replace_session()
        output = self._session.carrier.output(self._opening.output)
        self._lost = self._checked = False
        self.ended = False
        self.half_closed = False
        return self.adapter.config(self._opening.processor, output, self._opening.device_uuid)

    def attach(self, send: WriteAnytime) -> None:
        """Say how requests are sent on the stream that was just begun."""
        self._session.attach(send)

    def check_opened(self) -> bool:
        """Return whether the new stream can be used; False means that the server asked to move before that.

        Raises StreamMoved where the new stream's config is another than the first one's.
        """
        if self._session.ready is None or self._session.goaway is not None:
            return False
        if self._ready is not None and self._ready.config_sha256 != self._session.ready.config_sha256:
            raise StreamMoved(
                f"Expected the config {self._ready.config_sha256.hex()[:12]} on the new stream too, got "
                f"{self._session.ready.config_sha256.hex()[:12]}"
            )
        self._ready = self._session.ready
        self._checked = True
        return True

    def take_loss(self) -> CallError | None:
        """Return what the stream ended with, if a new one may carry on, and be ready for that. Its items are dropped.

        None where the stream did not end badly. Raises what it ended with where no new stream would help.
        """
        if not isinstance(self._error, CallError) or not self._error.stream_may_resume or self.closed:
            self._raise_error()
            return None
        error, self._error = self._error, None
        self.forget()
        return error

    def forget(self) -> None:
        """Drop the stream in use and its items. A new one is begun where one is needed."""
        self._replace_session()
        self._lost = True
        self._error = None
        self.ended = self.half_closed = True

    def outgoing(self, value: InputT) -> Outgoing:
        """Make a loaded input ready to be sent."""
        return self.adapter.outgoing(value, self.ready)

    def room(self, outgoing: Outgoing) -> Room:
        """Return whether the item can be sent now. Raises what the stream ended with, if it did."""
        self.check_not_closed()
        self._raise_error()
        session = self._session
        if self.usable:
            return Room.YES if session.has_room(outgoing) else Room.AFTER_READING
        if session.failure is not None or not session.idle:
            return Room.AFTER_READING
        if session.goaway is not None or self._lost:
            return Room.AFTER_MOVING
        raise StreamClosed("Expected an open stream, got one that was half-closed, or not opened")

    def take_id(self) -> int:
        """Return the next item's id."""
        self._next_id += 1
        return self._next_id - 1

    def begin_item(self, outgoing: Outgoing, item_id: int) -> Iterable[AnyRequest]:
        """Take an item, and return the requests to send for it: none, if the server could not take them."""
        return self._session.begin(outgoing, item_id)

    def cancellation(self, item_id: int) -> AnyRequest | None:
        """Return the request that cancels an item, None where it is too late. Raises ValueError for an unknown id."""
        self._check_id(item_id)
        wire_id = self._session.wire_id(item_id)
        return None if wire_id is None or self.half_closed else self.adapter.cancellation(wire_id)

    def release(self, item_id: int) -> bool:
        """Give an item's memory back. Returns whether the server is told. Raises ValueError for an unknown id."""
        self._check_id(item_id)
        return self._session.release(item_id)

    def abandon(self, item_ids: Iterable[int]) -> list[AnyRequest]:
        """Drop what is still to come of items, and return the requests that cancel them."""
        dropped = set(item_ids)
        kept = [event for event in self.events if event.id not in dropped]
        self.events.clear()
        self.events.extend(kept)
        unanswered = [self._session.abandon(item_id) for item_id in sorted(dropped)]
        if self.half_closed:
            return []
        return [self.adapter.cancellation(wire_id) for wire_id in unanswered if wire_id is not None]

    def receive(self, received: Received) -> Wish:
        """Take what came as one message. What breaks the grammar is what the stream ends with."""
        try:
            for message in messages_of(received):
                self._session.receive(message)
        except MonopathError as error:
            self._fail(error)
            return Wish.CANCEL
        if self._session.failure is not None:
            self.half_closed = True
            return Wish.STOP
        if self._session.goaway is not None:
            self.half_closed = True
            return Wish.HALF_CLOSE
        return Wish.NOTHING

    def receive_end(self) -> None:
        """Take the end with the status OK."""
        self.ended = self.half_closed = True
        self._session.end()
        if self._session.failure is not None:
            self._fail(error_of_failure(self._session.failure, self._phase))
        else:
            try:
                self._session.check_end()
            except ProtocolError as error:
                self._fail(error)
        self.add_summary(self._session.summary)

    def add_summary(self, done: Summary | None) -> None:
        """Count what one more stream came to."""
        if done is not None:
            self.summary = done if self.summary is None else self.summary + done

    def receive_status(self, status: grpc.RpcError) -> None:
        """Take the end with another status."""
        if self.closed and error_code(status) is grpc.StatusCode.CANCELLED:
            error: MonopathError = StreamClosed("Expected an open stream, got one that was closed")
        else:
            error = error_of_status(status, self._phase, self._session.failure)
        error.__cause__ = status
        self._fail(error)

    def close(self) -> None:
        """Want no more of it."""
        self.closed = self.half_closed = True
        self._session.end()

    def check_mappable(self) -> None:
        """Raise RuntimeError where `map` would mix its items with others of the stream.

        Raises StreamClosed where nothing more may be sent, and what the stream ended with where no new one would help.
        """
        if self.events or (self._session.expecting and self._error is None):
            raise RuntimeError("Expected a stream without items in flight for map, got one whose events were not taken")
        self.check_not_closed()
        if self._error is not None:
            self.take_loss()
        if not self.usable and not self._lost and self._session.goaway is None:
            raise StreamClosed("Expected an open stream, got one that was half-closed, or not opened")

    def check_not_closed(self) -> None:
        """Raise StreamClosed where the caller wants no more of it."""
        if self.closed:
            raise StreamClosed("Expected an open stream, got one that was closed")

    def check_readable(self) -> None:
        """Raise what the stream ended with, if it did."""
        self._raise_error()
        if self.ended or self.closed:
            raise StreamClosed("Expected an open stream, got one that has ended")

    @property
    def _phase(self) -> Phase:
        return Phase.OPENING if self._session.ready is None else Phase.OPEN

    def _raise_error(self) -> None:
        if self._error is not None:
            self._error_raised = True
            raise self._error

    def _fail(self, error: MonopathError) -> None:
        self.ended = self.half_closed = True
        self._session.end()
        if self._error is None:
            self._error = error

    def _check_id(self, item_id: int) -> None:
        if not 0 < item_id < self._next_id:
            raise ValueError(f"Expected the id of an item that was sent, got {item_id}")

    def _replace_session(self) -> None:
        self._session.end()
        self._session = self._new_session()

    def _new_session(self) -> Session[PathT]:
        return Session(
            self._opening.adapter,
            self._opening.new_carrier(),
            data_type=self._opening.data_type,
            order=self._opening.order,
            events=self.events,
            max_unfinished_items=self._opening.max_unfinished_items,
        )
