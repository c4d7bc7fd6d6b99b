"""What the sync and the asyncio stream have in common: everything but waiting.

A caller's stream may be carried by several of the server's, one after another: where the server asks to move, the items
it has are awaited, and the rest goes to a new stream under the same config.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import grpc

from monopath._enums import DataType, ResultOrder
from monopath._errors import MonopathError, ProtocolError, StreamClosed, StreamMoved
from monopath._messages import AnyRequest, AnyResponse, InputT, Outgoing, PathAdapter, read_response
from monopath._paths import PathT
from monopath._session import Event, Session
from monopath._status import Phase, error_code, error_of_failure, error_of_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monopath._records import Ready, Summary
    from monopath.v1 import config_pb2

__all__ = ["Opening", "Room", "StreamCore", "Wish"]

_MAX_FRUITLESS_MOVES = 3


@dataclass(frozen=True, slots=True)
class Opening(Generic[PathT, InputT]):
    """What every stream of one caller's stream is opened with."""

    adapter: PathAdapter[PathT, InputT]
    processor: config_pb2.ProcessorConfig
    output: config_pb2.OutputConfig
    data_type: DataType
    order: ResultOrder
    device_uuid: str
    max_unfinished_items: int | None


class Room(enum.Enum):
    """Whether an item can be sent now."""

    YES = enum.auto()
    AFTER_READING = enum.auto()
    AFTER_MOVING = enum.auto()


class Wish(enum.Enum):
    """What a received message asks of the writing side."""

    NOTHING = enum.auto()
    HALF_CLOSE = enum.auto()
    """After what is already on its way out."""
    STOP = enum.auto()
    """Half-close at once: what is still unsent is of no use any more."""
    CANCEL = enum.auto()


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
        self._first_ready: Ready | None = None
        self._fruitless_moves = 0
        self._session = self._new_session(first_id=1)

    @property
    def ready(self) -> Ready:
        """The opening of the stream in use. Raises StreamClosed before there was one."""
        if self._session.ready is None:
            raise StreamClosed("Expected an open stream, got one that was not opened; use it in a with statement")
        return self._session.ready

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

        Raises StreamMoved where the ones before only ever asked to move.
        """
        if self.closed:
            raise StreamClosed("Expected an open stream, got one that was closed")
        self._fruitless_moves = 0 if self._session.accepted_count else self._fruitless_moves + 1
        if self._fruitless_moves > _MAX_FRUITLESS_MOVES:
            raise StreamMoved(f"Expected a stream that takes items, got {_MAX_FRUITLESS_MOVES} that asked to move")
        self._session = self._new_session(first_id=self._session.next_id)
        self.ended = False
        self.half_closed = False
        return self.adapter.config(self._opening.processor, self._opening.output, self._opening.device_uuid)

    def check_opened(self) -> bool:
        """Return whether the new stream can be used; False means that the server asked to move before that.

        Raises StreamMoved where the new stream's config is another than the first one's.
        """
        if self._session.ready is None or self._session.goaway is not None:
            return False
        if self._first_ready is None:
            self._first_ready = self._session.ready
        elif self._first_ready.config_sha256 != self._session.ready.config_sha256:
            raise StreamMoved(
                f"Expected the config {self._first_ready.config_sha256.hex()[:12]} on the new stream too, got "
                f"{self._session.ready.config_sha256.hex()[:12]}"
            )
        return True

    def outgoing(self, value: InputT) -> Outgoing:
        """Make a loaded input ready to be sent."""
        return self.adapter.outgoing(value, self.ready)

    def room(self, outgoing: Outgoing) -> Room:
        """Return whether the item can be sent now. Raises what the stream ended with, if it did."""
        if self.closed:
            raise StreamClosed("Expected an open stream, got one that was closed")
        self._raise_error()
        session = self._session
        if session.sending and not self.half_closed:
            return Room.YES if session.has_room(outgoing) else Room.AFTER_READING
        if session.failure is not None or not session.idle:
            return Room.AFTER_READING
        if session.goaway is not None:
            return Room.AFTER_MOVING
        raise StreamClosed("Expected an open stream, got one that was half-closed, or not opened")

    def begin_item(self, outgoing: Outgoing) -> tuple[int, Iterable[AnyRequest]]:
        """Give an item its id, and return the requests to send for it: none, if the server could not take them."""
        item_id, to_send = self._session.begin(outgoing)
        return item_id, outgoing.requests(item_id) if to_send else ()

    def cancellation(self, item_id: int) -> AnyRequest | None:
        """Return the request that cancels an item, None where it is too late. Raises ValueError for an unknown id."""
        awaits_end = self._session.awaits_end(item_id)
        return self.adapter.cancellation(item_id) if awaits_end and not self.half_closed else None

    def release(self, item_id: int) -> AnyRequest | None:
        """Return the request that gives an item's memory back. Raises ValueError for an unknown id."""
        was_sent = self._session.was_sent(item_id)
        return self.adapter.release(item_id) if was_sent and not self.half_closed else None

    def abandon(self, item_ids: Iterable[int]) -> list[AnyRequest]:
        """Drop what is still to come of items, and return the requests that cancel them."""
        dropped = set(item_ids)
        kept = [event for event in self.events if event.id not in dropped]
        self.events.clear()
        self.events.extend(kept)
        unanswered = [item_id for item_id in sorted(dropped) if self._session.abandon(item_id)]
        if self.half_closed:
            return []
        return [self.adapter.cancellation(item_id) for item_id in unanswered]

    def receive(self, response: AnyResponse) -> Wish:
        """Take a response. One that breaks the grammar is what the stream ends with."""
        message = read_response(response)
        if message is None:
            return Wish.NOTHING
        try:
            self._session.receive(message)
        except ProtocolError as error:
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
        if self._session.failure is not None:
            self._fail(error_of_failure(self._session.failure, self._phase))
        else:
            try:
                self._session.check_end()
            except ProtocolError as error:
                self._fail(error)
        done = self._session.summary
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

    def check_mappable(self) -> None:
        """Raise RuntimeError where `map` would mix its items with others of the stream."""
        if self.events or self._session.expecting:
            raise RuntimeError("Expected a stream without items in flight for map, got one whose events were not taken")

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
        if self._error is None:
            self._error = error

    def _new_session(self, *, first_id: int) -> Session[PathT]:
        return Session(
            self._opening.adapter.path,
            data_type=self._opening.data_type,
            order=self._opening.order,
            events=self.events,
            first_id=first_id,
            max_unfinished_items=self._opening.max_unfinished_items,
        )
