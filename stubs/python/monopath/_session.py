"""The state of one stream, without I/O: what may be sent, and whether what was received keeps to the grammar.

A server's stream wants ids that increase. An item that moves to another stream keeps the caller's id, and there gets a
wire id besides: the same one, unless a larger one was used on that stream already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, assert_never

from monopath import _records as records
from monopath._assembly import FeatureAssembly
from monopath._carriers import Carrier, Features
from monopath._enums import DataType, ItemErrorReason, ResultOrder
from monopath._errors import ItemError, ProtocolError
from monopath._leases import Leases, WriteAnytime
from monopath._messages import AnyRequest, Chunk, Completion, Handle, PathAdapter, ServerMessage
from monopath._paths import PathT
from monopath._results import PlanEvent, Result
from monopath.v1 import error_pb2, event_pb2

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from monopath._messages import Outgoing

__all__ = ["Event", "Session"]

Event: TypeAlias = PlanEvent | Result[PathT]
"""What a stream tells about its items: at most one plan, then exactly one result each."""


@dataclass(slots=True)
class _Unanswered:
    """An item that was sent and has no end yet."""

    item_id: int
    """The caller's."""
    label: str
    payload_bytes: int
    plan: records.ImagePlan | None = None
    assembly: FeatureAssembly | None = None
    refusal: ItemError | None = None
    """Why the item was not sent at all. It waits here for its turn, where items end in the order they were sent."""


class Session(Generic[PathT]):
    """One stream from `config` to `summary`. Methods raise ProtocolError where the server breaks a rule."""

    def __init__(
        self,
        adapter: PathAdapter[PathT, Any],
        carrier: Carrier,
        *,
        data_type: DataType,
        order: ResultOrder,
        events: deque[Event[PathT]],
        max_unfinished_items: int | None = None,
    ) -> None:
        """`events` is where plans and results go; the caller takes them from there."""
        self.ready: records.Ready | None = None
        self.summary: records.Summary | None = None
        self.goaway: event_pb2.Goaway | None = None
        self.failure: error_pb2.StreamFailure | None = None
        self.accepted_count = 0
        self.ended_count = 0
        self.carrier = carrier
        self._path = adapter.path
        self._release_request = adapter.release
        self._leases = Leases()
        self._data_type = data_type
        self._order = order
        self._events = events
        self._own_max_unfinished_items = max_unfinished_items
        # By wire id. Insertion order is sending order.
        self._unanswered: dict[int, _Unanswered] = {}
        self._wire_ids: dict[int, int] = {}
        """Of unanswered items, by the caller's id."""
        self._unfinished_bytes = 0
        # These two hold wire ids.
        self._abandoned_ids: set[int] = set()
        self._refused_ids: set[int] = set()
        self._next_wire_id = 1

    @property
    def expecting(self) -> bool:
        """An item that was not abandoned has no end yet."""
        return len(self._unanswered) > len(self._abandoned_ids)

    @property
    def idle(self) -> bool:
        """Every item that was sent has ended."""
        return not self._unanswered

    @property
    def sending(self) -> bool:
        """The server takes more items on this stream."""
        return self.ready is not None and self.goaway is None and self.failure is None and self.summary is None

    def attach(self, send: WriteAnytime) -> None:
        """Say how requests are sent on this stream."""
        self._leases.send = send

    def has_room(self, outgoing: Outgoing) -> bool:
        """Return whether the item fits into what server and client allow at a time. One always does."""
        assert self.ready is not None
        if not self._unanswered or self._excess_bytes(outgoing, self.carrier.can_upload(outgoing.payload_bytes)):
            return True
        max_items = max(1, self.ready.limits.max_unfinished_items)
        if self._own_max_unfinished_items is not None:
            max_items = min(max_items, self._own_max_unfinished_items)
        return (
            len(self._unanswered) < max_items
            and self._unfinished_bytes + outgoing.payload_bytes <= self.ready.limits.max_unfinished_bytes
        )

    def begin(self, outgoing: Outgoing, item_id: int) -> Iterable[AnyRequest]:
        """Take an item, and return the requests to send for it: none, if it is not to be sent.

        An item whose request the server could not take would end the whole stream; it becomes its own error instead.
        """
        assert self.ready is not None
        wire_id = max(item_id, self._next_wire_id)
        self._next_wire_id = wire_id + 1
        self._wire_ids[item_id] = wire_id
        upload = self.carrier.begin_upload(wire_id, outgoing.payload_bytes)
        excess_bytes = self._excess_bytes(outgoing, upload is not None)
        if excess_bytes:
            self.carrier.end_upload(wire_id)
            refusal = ItemError(
                ItemErrorReason.IMAGE_BYTES_EXCEEDED,
                f"Expected a request of at most {self.ready.limits.max_request_bytes} bytes, got {excess_bytes}; "
                "not sent",
                item_id=item_id,
                label=outgoing.label,
            )
            self._refused_ids.add(wire_id)
            self._unanswered[wire_id] = _Unanswered(item_id, outgoing.label, 0, refusal=refusal)
            self._emit_refusals()
            return ()
        self._unanswered[wire_id] = _Unanswered(item_id, outgoing.label, outgoing.payload_bytes)
        self._unfinished_bytes += outgoing.payload_bytes
        self.accepted_count += 1
        return outgoing.requests(wire_id, upload)

    def release(self, item_id: int) -> bool:
        """Give an item's memory back. Returns False where none is leased on this stream, or it is too late to tell."""
        return self._leases.release(item_id)

    def end(self) -> None:
        """The stream is over, in whatever way. What it leased stays readable. Calling it again does nothing."""
        self._leases.end()
        self.carrier.end()

    def abandon(self, item_id: int) -> int | None:
        """Drop what is still to come of an item. Returns its wire id where the server has to be told."""
        wire_id = self._wire_ids.get(item_id)
        if wire_id is None:
            return None
        self._abandoned_ids.add(wire_id)
        return None if wire_id in self._refused_ids else wire_id

    def wire_id(self, item_id: int) -> int | None:
        """Return the wire id of an item that this stream's server has still to end."""
        wire_id = self._wire_ids.get(item_id)
        return None if wire_id in self._refused_ids else wire_id

    def receive(self, message: ServerMessage) -> None:
        """Take one message of the server."""
        if self.summary is not None:
            raise ProtocolError(f"Expected nothing after the summary, got {_name(message)}")
        if isinstance(message, event_pb2.Goaway):
            self.goaway = message
        elif isinstance(message, error_pb2.StreamFailure):
            self.failure = message
        elif isinstance(message, event_pb2.Ready):
            self._receive_ready(message)
        elif self.ready is None and not (isinstance(message, event_pb2.Summary) and self.goaway is not None):
            raise ProtocolError(f"Expected ready first, got {_name(message)}")
        elif isinstance(message, event_pb2.ItemPlan):
            self._receive_plan(message, self.ready)
        elif isinstance(message, Chunk):
            self._receive_chunk(message)
        elif isinstance(message, Handle):
            self._receive_handle(message)
        elif isinstance(message, Completion):
            self._receive_completion(message, self.ready)
        elif isinstance(message, error_pb2.ItemError):
            self._receive_error(message)
        elif isinstance(message, event_pb2.Summary):
            self._receive_summary(message)
        else:
            assert_never(message)

    def check_end(self) -> None:
        """Take the end of the stream with the status OK."""
        if self.summary is None and not (self.ready is None and self.goaway is not None):
            raise ProtocolError("Expected a summary before the stream's end, got none")

    def _excess_bytes(self, outgoing: Outgoing, uploads: bool) -> int:
        """Return the size of the item's largest request if the server would not take it, else 0."""
        assert self.ready is not None
        size_bytes = outgoing.largest_upload_request_bytes if uploads else outgoing.largest_request_bytes
        return size_bytes if 0 < self.ready.limits.max_request_bytes < size_bytes else 0

    def _receive_ready(self, message: event_pb2.Ready) -> None:
        if self.ready is not None:
            raise ProtocolError("Expected ready once, got another")
        opened = records.ready(message)
        if opened.path != self._path:
            raise ProtocolError(f"Expected a stream of the path {self._path}, got {opened.path}")
        self.carrier.check(message)
        self.ready = opened

    def _receive_plan(self, message: event_pb2.ItemPlan, opened: records.Ready | None) -> None:
        item = self._item(message.id, "plan")
        if item.plan is not None:
            raise ProtocolError(f"Expected one plan of item {message.id}, got another")
        if records.path_word(message.path) != self._path:
            raise ProtocolError(f"Expected a plan of the path {self._path}, got {records.path_word(message.path)}")
        assert opened is not None
        item.plan = records.image_plan(message.plan)
        item.assembly = FeatureAssembly(
            item.plan, max_feature_bytes=opened.limits.max_feature_bytes, data_type=self._data_type
        )
        if message.id not in self._abandoned_ids:
            self._events.append(PlanEvent(item.item_id, item.label, self._path, item.plan))

    def _receive_chunk(self, message: Chunk) -> None:
        item = self._item(message.id, "chunk")
        if item.assembly is None:
            raise ProtocolError(f"Expected a plan of item {message.id} before its features, got none")
        item.assembly.add(message.offset_bytes, message.data)

    def _receive_handle(self, message: Handle) -> None:
        item, handle = self._item(message.id, "handle"), message.location
        if item.plan is None or item.assembly is None:
            raise ProtocolError(f"Expected a plan of item {message.id} before its features, got none")
        if handle is None:
            raise ProtocolError(f"Expected features of item {message.id} in a known place, got them elsewhere")
        plan = item.plan
        item.assembly.place(
            handle.length_bytes,
            lambda: self.carrier.features(
                handle, plan, self._leases.begin(item.item_id, self._release_request(message.id))
            ),
        )

    def _receive_completion(self, message: Completion, opened: records.Ready | None) -> None:
        item = self._item(message.id, "completion")
        if item.assembly is None:
            raise ProtocolError(f"Expected a plan of item {message.id} before its completion, got none")
        features = item.assembly.finish(self.carrier.inline_features)
        made = records.provenance(message.provenance)
        assert opened is not None
        if made.path != self._path or made.config_sha256 != opened.config_sha256:
            raise ProtocolError(
                f"Expected item {message.id} made by {self._path} with the config {opened.config_sha256.hex()[:12]}, "
                f"got {made.path} with {made.config_sha256.hex()[:12]}"
            )
        timings = records.item_timings(message.timings)
        self._end(
            message.id,
            plan=item.plan,
            features=features,
            provenance=made,
            timings=timings,
            cache=message.cache,
        )

    def _receive_error(self, message: error_pb2.ItemError) -> None:
        item = self._item(message.id, "error")
        error = records.item_error(message, item_id=item.item_id, label=item.label)
        self._end(message.id, plan=item.plan, error=error)

    def _receive_summary(self, message: event_pb2.Summary) -> None:
        if self._unanswered:
            raise ProtocolError(f"Expected {len(self._unanswered)} more items to end before the summary, got none")
        counts = records.summary(message)
        ended_count = counts.completed_count + counts.failed_count + counts.cancelled_count
        if not counts.accepted_count == ended_count == self.accepted_count:
            raise ProtocolError(
                f"Expected a summary of {self.accepted_count} items, got {counts.accepted_count} accepted and "
                f"{ended_count} ended"
            )
        self.summary = counts

    def _item(self, item_id: int, name: str) -> _Unanswered:
        item = self._unanswered.get(item_id)
        if item is None or item.refusal is not None:
            raise ProtocolError(f"Expected a {name} of an item without an end, got one of item {item_id}")
        return item

    def _end(
        self,
        wire_id: int,
        *,
        plan: records.ImagePlan | None,
        error: ItemError | None = None,
        features: Features | None = None,
        provenance: records.Provenance | None = None,
        timings: records.ItemTimings | None = None,
        cache: str | None = None,
    ) -> None:
        if self._order is ResultOrder.AS_SENT and wire_id != next(iter(self._unanswered)):
            raise ProtocolError(
                f"Expected item {next(iter(self._unanswered))} to end first, as sent, got the end of item {wire_id}"
            )
        item = self._unanswered[wire_id]
        self._unfinished_bytes -= item.payload_bytes
        result: Result[PathT] = Result(
            item_id=item.item_id,
            label=item.label,
            path=self._path,
            error=error,
            plan=plan,
            features=features,
            provenance=provenance,
            timings=timings,
            cache=cache,
        )
        self._emit(wire_id, result)
        self._emit_refusals()

    def _emit_refusals(self) -> None:
        for wire_id, item in list(self._unanswered.items()):
            if item.refusal is not None:
                self._emit(wire_id, Result(item_id=item.item_id, label=item.label, path=self._path, error=item.refusal))
            elif self._order is ResultOrder.AS_SENT:
                return

    def _emit(self, wire_id: int, result: Result[PathT]) -> None:
        del self._unanswered[wire_id], self._wire_ids[result.id]
        self.carrier.end_upload(wire_id)
        self.ended_count += 1
        if wire_id in self._abandoned_ids:
            self._abandoned_ids.discard(wire_id)
        else:
            self._events.append(result)


def _name(message: ServerMessage) -> str:
    return type(message).__name__
