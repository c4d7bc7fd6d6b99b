"""The grammar of a stream as a state machine: what contract.md section 2 and protos/monopath/v1/service.proto demand.

    trace = StreamTrace(path_pb2.PREPROCESSING_PATH_DEFERRED_CPU)
    trace.sent(request)       # before it is written
    trace.received(response)
    trace.half_closed()
    trace.ended(0)            # the status code's number
    trace.check()             # raises AssertionError that names each broken rule with the index of its event

A test with a client that breaks rules on purpose asks for the server's part alone: `trace.check(Party.SERVER)`.
It knows the paths by their oneof arms' names and the option `path` only, so that a new path needs no change here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from google.protobuf.message import Message

from monopath.v1 import config_pb2, error_pb2, options_pb2
from tests.support.grammar_events import Event, FromClient, FromServer, HalfClose, Party, Rule, Status, Violation
from tests.support.grammar_item import MAX_CHUNK_BYTES, Finding, ItemTrack, byte_count
from tests.support.options import SERVICE, method_path, reason_traits

__all__ = [
    "Event",
    "FromClient",
    "FromServer",
    "HalfClose",
    "Party",
    "Rule",
    "Status",
    "StreamTrace",
    "Violation",
    "stream_violations",
]

_OK = 0
_LOST = frozenset(
    {
        options_pb2.GRPC_CODE_CANCELLED,
        options_pb2.GRPC_CODE_DEADLINE_EXCEEDED,
        options_pb2.GRPC_CODE_UNAVAILABLE,
    }
)
"""Codes that a client's own runtime makes when it gives up or the connection breaks: they excuse a missing end."""
_REFUSALS = frozenset({options_pb2.GRPC_CODE_INVALID_ARGUMENT, options_pb2.GRPC_CODE_FAILED_PRECONDITION})
"""Codes that only the service itself makes, and never without having told why in the stream."""
_STREAM_REASONS = error_pb2.StreamErrorReason.DESCRIPTOR


class StreamTrace:
    """Records what one client does and sees on one stream. Threads may share it: recording is one list append."""

    def __init__(self, path: int) -> None:
        self.path = path
        self.events: list[Event] = []

    def sent(self, message: Message) -> None:
        """The client is about to write a message."""
        self.events.append(FromClient(message))

    def received(self, message: Message) -> None:
        """The client has read a message."""
        self.events.append(FromServer(message))

    def half_closed(self) -> None:
        """The client is about to half-close."""
        self.events.append(HalfClose())

    def ended(self, code: int) -> None:
        """The stream has ended with this status code (its number: `grpc.StatusCode.OK.value[0]`)."""
        self.events.append(Status(code))

    def violations(self, party: Party | None = None) -> tuple[Violation, ...]:
        """Every broken rule, or those that one party broke."""
        found = stream_violations(self.path, self.events)
        return tuple(violation for violation in found if party is None or violation.party is party)

    def check(self, party: Party | None = None) -> None:
        """Raises AssertionError with every broken rule."""
        found = self.violations(party)
        if found:
            raise AssertionError("Expected a stream by the grammar, got\n" + "\n".join(map(str, found)))


def stream_violations(path: int, events: Iterable[Event]) -> tuple[Violation, ...]:
    """Runs a whole stream of the method of `path` through the grammar; the last event must be its `Status`."""
    checker = _Checker(path)
    for event in events:
        checker.feed(event)
    if checker.status is None:
        checker.report(Party.SERVER, Rule.STATUS_LAST, "Expected a status at the end, got none")
    return tuple(checker.violations)


class _Checker:
    def __init__(self, path: int) -> None:
        method = next((method for method in SERVICE.methods if path and method_path(method) == path), None)
        if method is None:
            raise ValueError(f"Expected the number of a path that has a method, got {path}")
        self.path = path
        self.request_type = method.input_type
        self.response_type = method.output_type
        self.index = 0
        self.violations: list[Violation] = []
        self.config: Any = None
        self.ready: Any = None
        self.failure: error_pb2.StreamFailure | None = None
        self.summary: Any = None
        self.status: int | None = None
        self.half_closed = False
        self.greatest_id = 0
        self.items: dict[int, ItemTrack] = {}

    def report(self, party: Party, rule: Rule, text: str) -> None:
        self.violations.append(Violation(self.index, party, rule, text))

    def feed(self, event: Event) -> None:
        if self.status is not None:
            party = Party.CLIENT if isinstance(event, FromClient | HalfClose) else Party.SERVER
            self.report(party, Rule.STATUS_LAST, f"Expected nothing after the status, got {type(event).__name__}")
        else:
            match event:
                case FromClient(message):
                    self._from_client(message)
                case FromServer(message):
                    self._from_server(message)
                case HalfClose():
                    if self.half_closed:
                        self.report(Party.CLIENT, Rule.CLIENT_CLOSED, "Expected one half-close, got a second")
                    self.half_closed = True
                case Status(code):
                    self._end(code)
                    self.status = code
                case _:
                    assert_never(event)
        self.index += 1

    # ---- the client's messages

    def _from_client(self, message: Any) -> None:
        if message.DESCRIPTOR.full_name != self.request_type.full_name:
            self._wrong_type(Party.CLIENT, self.request_type.name, message)
            return
        arm = message.WhichOneof("payload")
        if self.half_closed:
            self.report(Party.CLIENT, Rule.CLIENT_CLOSED, f"Expected nothing after the half-close, got {arm}")
        if arm is None:
            self.report(Party.CLIENT, Rule.PAYLOAD_KNOWN, "Expected a payload, got none that the method knows")
            return
        payload = getattr(message, arm)
        if arm == "config":
            if self.config is not None:
                self.report(Party.CLIENT, Rule.CONFIG_ONCE, "Expected one config, got a second")
            else:
                self.config = payload
            return
        if self.config is None:
            self.report(Party.CLIENT, Rule.CONFIG_FIRST, f"Expected a config first, got {arm}")
        elif self.ready is None:
            self.report(Party.CLIENT, Rule.READY_AWAITED, f"Expected the client to wait for ready, got {arm}")
        if arm == "item":
            self._item(payload)
            return
        track = self.items.get(payload.id)
        if track is None:
            self.report(
                Party.CLIENT, Rule.ID_KNOWN, f"Expected the id of an item that was sent, got {arm} {payload.id}"
            )
        elif arm == "cancellation":
            track.cancellation_sent = True
        elif arm == "item_features":
            self._report_all(Party.CLIENT, payload.id, track.take_client_features(payload))

    def _item(self, item: Any) -> None:
        if item.id <= self.greatest_id:
            text = f"Expected an id greater than {self.greatest_id}, got {item.id}"
            self.report(Party.CLIENT, Rule.ID_INCREASING, text)
            return
        self.greatest_id = item.id
        track = ItemTrack(item)
        if "image" in item.DESCRIPTOR.fields_by_name and item.image.WhichOneof("content"):
            track.received_bytes = byte_count(getattr(item.image, item.image.WhichOneof("content")))
        self.items[item.id] = track

    # ---- the server's messages

    def _from_server(self, message: Any) -> None:
        if message.DESCRIPTOR.full_name != self.response_type.full_name:
            self._wrong_type(Party.SERVER, self.response_type.name, message)
            return
        arm = message.WhichOneof("payload")
        if arm == "group":
            self._group(message.group.responses)
            return
        if arm is None:
            return  # A newer server's arm: never terminal, and for an older client to skip.
        if self.summary is not None:
            rule = Rule.SUMMARY_ONE if arm == "summary" else Rule.SUMMARY_LAST
            self.report(Party.SERVER, rule, f"Expected nothing after the summary, got {arm}")
        if self.ready is None and arm not in ("ready", "goaway", "failure"):
            self.report(Party.SERVER, Rule.READY_FIRST, f"Expected ready first, got {arm}")
        payload = getattr(message, arm)
        match arm:
            case "ready":
                self._take_ready(payload)
            case "failure":
                self._take_failure(payload)
            case "summary":
                self._take_summary(payload)
            case "goaway":
                pass  # Not terminal: all that was sent must still be answered.
            case _:
                self._take_item_event(arm, payload)

    def _group(self, responses: Sequence[Any]) -> None:
        if self.config is None or not self.config.output.group_responses:
            self.report(Party.SERVER, Rule.GROUP, "Expected a group only where the config asks for it, got one")
        arms = [response.WhichOneof("payload") for response in responses]
        if len(arms) < 2 or "group" in arms:
            text = f"Expected a group of two or more responses that are no groups, got {arms}"
            self.report(Party.SERVER, Rule.GROUP, text)
        for response in responses:
            if response.WhichOneof("payload") != "group":
                self._from_server(response)

    def _take_ready(self, ready: Any) -> None:
        if self.ready is not None or self.failure is not None or self.config is None:
            self.report(Party.SERVER, Rule.READY_ONCE, "Expected one ready, after the config and before any failure")
        if ready.path != self.path:
            self.report(Party.SERVER, Rule.PATH, f"Expected ready of path {self.path}, got path {ready.path}")
        self.ready = ready

    def _take_failure(self, failure: error_pb2.StreamFailure) -> None:
        if self.failure is not None:
            self.report(Party.SERVER, Rule.FAILURE_ONCE, "Expected one failure, got a second")
            return
        self.failure = failure
        if reason_traits(_STREAM_REASONS, failure.reason) is None:
            self.report(Party.SERVER, Rule.FAILURE_ONCE, f"Expected a reason of the contract, got {failure.reason}")
        if failure.reason == error_pb2.STREAM_ERROR_REASON_CONFIG_INVALID and not failure.violations:
            self.report(Party.SERVER, Rule.FAILURE_ONCE, "Expected the wrong fields of the config, got none")

    def _take_item_event(self, arm: str, payload: Any) -> None:
        track = self.items.get(payload.id)
        if track is None:
            text = f"Expected {arm} of an item that was sent, got item {payload.id}"
            self.report(Party.SERVER, Rule.ITEM_SENT, text)
            return
        if track.end is not None:
            text = f"item {payload.id}: Expected nothing after its end, got {arm}"
            self.report(Party.SERVER, Rule.ITEM_OVER, text)
            return
        match arm:
            case "plan":
                data_type = 0 if self.config is None else self.config.output.data_type
                findings = track.take_plan(payload, self.path, data_type)
            case "features":
                limit = 0 if self.ready is None else self.ready.limits.chunk_bytes
                findings = track.take_features(payload, self._transport, min(limit or MAX_CHUNK_BYTES, MAX_CHUNK_BYTES))
            case "completion":
                digest = b"" if self.ready is None else self.ready.config_sha256
                findings = track.take_completion(payload, self.path, digest)
            case "error":
                findings = track.take_error(payload)
            case _:
                raise NotImplementedError(f"Expected an arm that the grammar has rules for, got {arm}")
        self._report_all(Party.SERVER, payload.id, findings)
        if arm in ("completion", "error"):
            self._check_order(payload.id)

    @property
    def _transport(self) -> str | None:
        return None if self.config is None else self.config.output.WhichOneof("transport")

    def _check_order(self, ended_id: int) -> None:
        if self.config is None or self.config.output.order != config_pb2.RESULT_ORDER_AS_SENT:
            return
        earlier = [item_id for item_id, track in self.items.items() if item_id < ended_id and track.end is None]
        if earlier:
            text = f"item {ended_id}: Expected items to end in the order sent, got {earlier} still without end"
            self.report(Party.SERVER, Rule.ORDER, text)

    def _take_summary(self, summary: Any) -> None:
        if not self.half_closed:
            self.report(Party.SERVER, Rule.SUMMARY_LAST, "Expected the summary after the half-close, got it before")
        if self.failure is not None:
            self.report(Party.SERVER, Rule.SUMMARY_ONE, "Expected no summary after a failure, got one")
            return
        self.summary = summary
        ends = [track.end for track in self.items.values()]
        expected = {
            "accepted_count": len(ends),
            "completed_count": ends.count("completed"),
            "failed_count": ends.count("failed"),
            "cancelled_count": ends.count("cancelled"),
            "sent_bytes": sum(track.sent_bytes for track in self.items.values()),
            "fallback_count": sum(track.fell_back(self._transport) for track in self.items.values()),
        }
        for name, value in expected.items():
            if getattr(summary, name) != value:
                text = f"Expected {name} to be {value}, got {getattr(summary, name)}"
                self.report(Party.SERVER, Rule.SUMMARY_SUMS, text)
        # Of an item that ended badly, a server may have counted any part.
        least = sum(track.received_bytes for track in self.items.values() if track.end == "completed")
        most = sum(track.received_bytes for track in self.items.values())
        if not least <= summary.received_bytes <= most:
            text = f"Expected received_bytes to be {least} to {most}, got {summary.received_bytes}"
            self.report(Party.SERVER, Rule.SUMMARY_SUMS, text)

    # ---- the end

    def _end(self, code: int) -> None:
        if code == _OK:
            self._end_well()
        elif self.failure is None and (code in _REFUSALS or (self.summary is not None and code not in _LOST)):
            text = f"Expected OK or a failure that says why, got status code {code}"
            self.report(Party.SERVER, Rule.STATUS_MATCHES, text)
        elif self.failure is not None and code not in _LOST:
            traits = reason_traits(_STREAM_REASONS, self.failure.reason)
            if traits is not None and traits.code != code:
                text = f"Expected status code {traits.code} of reason {self.failure.reason}, got {code}"
                self.report(Party.SERVER, Rule.STATUS_MATCHES, text)
            # What came behind the broken message was never accepted; what has a plan was.
            self._unended([item_id for item_id, track in self.items.items() if track.plan is not None])

    def _end_well(self) -> None:
        if not self.half_closed:
            self.report(Party.SERVER, Rule.HALF_CLOSE_FIRST, "Expected the client to half-close first, got a status OK")
        if self.failure is not None:
            self.report(Party.SERVER, Rule.STATUS_MATCHES, "Expected the status of the failure's reason, got OK")
        elif self.summary is None:
            self.report(Party.SERVER, Rule.SUMMARY_ONE, "Expected a summary before the status OK, got none")
        self._unended(list(self.items))

    def _unended(self, accepted_ids: list[int]) -> None:
        missing = [item_id for item_id in accepted_ids if self.items[item_id].end is None]
        if missing:
            self.report(Party.SERVER, Rule.ITEM_ENDED, f"Expected an end of every accepted item, got none of {missing}")

    def _wrong_type(self, party: Party, expected: str, message: Any) -> None:
        self.report(party, Rule.TYPE_OF_PATH, f"Expected {expected}, got {message.DESCRIPTOR.name}")

    def _report_all(self, party: Party, item_id: int, findings: Iterable[Finding]) -> None:
        for rule, text in findings:
            self.report(party, rule, f"item {item_id}: {text}")
