"""What a server tells of its work to whoever watches it: plain values, which know of no metrics, traces or logs.

`monopath_server.telemetry` has the observers that do something; nothing else of the server knows them.
"""

from __future__ import annotations

import contextvars
import enum
import time
from dataclasses import dataclass, field

from monopath_server.delivery.parts import TransportKind
from monopath_server.engine.items import CacheOutcome, Timings
from monopath_server.faults import ItemReason, StreamReason

__all__ = [
    "CURRENT_ITEM_ID",
    "CURRENT_STREAM",
    "Ended",
    "ItemFacts",
    "Observer",
    "StreamFacts",
    "StreamWatch",
]


class Ended(enum.StrEnum):
    """How a stream or an item ended that has no reason of a fault."""

    COMPLETED = enum.auto()
    ABANDONED = enum.auto()
    """Its client went away first, or its stream broke."""


@dataclass(slots=True)
class StreamFacts:
    """One stream. Filled in on its way."""

    id: int
    """Counts the streams of this process."""
    method: str
    path: str
    """Name of the contract's path, without its prefix."""
    peer: str
    """As gRPC tells it."""
    transport: TransportKind = TransportKind.INLINE
    """What the client asked for; known once the stream is open."""
    begun_ns: int = field(default_factory=time.perf_counter_ns)
    ended_ns: int = 0
    ending: Ended | StreamReason = Ended.ABANDONED


@dataclass(slots=True)
class ItemFacts:
    """One item. Filled in on its way. Times are `time.perf_counter_ns`; 0: it did not come so far."""

    id: int
    traceparent: str
    """As the client sent it, which is anything."""
    accepted_ns: int = field(default_factory=time.perf_counter_ns)
    planned_ns: int = 0
    made_ns: int = 0
    ended_ns: int = 0
    """When its last message was taken."""
    timings: Timings | None = None
    cache: CacheOutcome | None = None
    token_count: int = 0
    received_bytes: int = 0
    received_by: TransportKind = TransportKind.INLINE
    sent_bytes: int = 0
    sent_by: TransportKind | None = None
    """None where nothing was sent."""
    ending: Ended | ItemReason = Ended.ABANDONED

    def receive(self, size_bytes: int, transport: TransportKind) -> None:
        """Bytes of the item came."""
        self.received_bytes += size_bytes
        self.received_by = transport

    def send(self, size_bytes: int, transport: TransportKind) -> None:
        """Bytes of the item's features went."""
        self.sent_bytes += size_bytes
        self.sent_by = transport


class Observer:
    """Is told of a server's work, on its event loop, and must be quick. This one does nothing."""

    watches_items = False
    """Whether facts of items are gathered at all."""

    def stream_opened(self, stream: StreamFacts, /) -> None:
        """A config was accepted."""

    def stream_ended(self, stream: StreamFacts, /) -> None:
        """A stream is over, or was refused."""

    def goaway_sent(self, stream: StreamFacts, reason: str, /) -> None:
        """A client was asked to move. `reason` is the contract's, without its prefix."""

    def item_ended(self, stream: StreamFacts, item: ItemFacts, /) -> None:
        """An item is over."""

    def batch_formed(self, item_count: int, /) -> None:
        """A device takes up images."""


class StreamWatch:
    """One stream's observer. Used on the event loop only."""

    def __init__(self, observer: Observer, stream: StreamFacts) -> None:
        self.stream = stream
        self._observer = observer

    def opened(self, transport: TransportKind) -> None:
        """The config was accepted."""
        self.stream.transport = transport
        self._observer.stream_opened(self.stream)

    def ended(self) -> None:
        """The stream is over; `stream.ending` says how."""
        self.stream.ended_ns = time.perf_counter_ns()
        self._observer.stream_ended(self.stream)

    def goaway_sent(self, reason: str) -> None:
        """The client was asked to move."""
        self._observer.goaway_sent(self.stream, reason)

    def item(self, item_id: int, traceparent: str) -> ItemFacts | None:
        """Facts to be filled in for an item; None where nobody asks for them."""
        return ItemFacts(item_id, traceparent) if self._observer.watches_items else None

    def item_ended(self, item: ItemFacts, ending: Ended | ItemReason) -> None:
        """An item is over."""
        item.ending = ending
        item.ended_ns = time.perf_counter_ns()
        self._observer.item_ended(self.stream, item)


CURRENT_STREAM: contextvars.ContextVar[StreamFacts | None] = contextvars.ContextVar("current_stream", default=None)
"""The stream that the running code works for, so that log records can say so."""
CURRENT_ITEM_ID: contextvars.ContextVar[int | None] = contextvars.ContextVar("current_item_id", default=None)
"""The item of the stream."""
