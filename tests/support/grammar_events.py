"""What happens on a stream, as the grammar checker sees it, and the rules it can find broken."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from google.protobuf.message import Message

__all__ = ["Event", "FromClient", "FromServer", "HalfClose", "Party", "Rule", "Status", "Violation"]


@dataclass(frozen=True, slots=True)
class FromClient:
    """The client sent a message. Recorded before the write, or an answer could seem to come before its cause."""

    message: Message


@dataclass(frozen=True, slots=True)
class FromServer:
    """The client read a message of the server."""

    message: Message


@dataclass(frozen=True, slots=True)
class HalfClose:
    """The client said that it will send no more."""


@dataclass(frozen=True, slots=True)
class Status:
    """The stream ended with a gRPC status."""

    code: int
    """Number of the code; 0 is OK."""


Event = FromClient | FromServer | HalfClose | Status


class Party(enum.StrEnum):
    """Who broke a rule."""

    CLIENT = enum.auto()
    SERVER = enum.auto()


class Rule(enum.StrEnum):
    """The rules of a stream. Each has a script in tests/contract/test_grammar.py that breaks it alone."""

    TYPE_OF_PATH = enum.auto()
    """Every message is of the method's own request or response type."""
    PAYLOAD_KNOWN = enum.auto()
    """A client's message has a payload."""
    CONFIG_FIRST = enum.auto()
    """The client's first message is its config."""
    CONFIG_ONCE = enum.auto()
    """The client sends one config."""
    READY_AWAITED = enum.auto()
    """The client sends nothing behind the config until it has read `ready`."""
    ID_INCREASING = enum.auto()
    """Item ids are positive and each is larger than the one before."""
    ID_KNOWN = enum.auto()
    """The client addresses only items that it sent."""
    REQUEST_BYTES = enum.auto()
    """Bytes of finished features come without gap or overlap, and fit the announced tensor."""
    CLIENT_CLOSED = enum.auto()
    """The client sends nothing after its half-close."""
    READY_FIRST = enum.auto()
    """`ready` precedes everything but `goaway` and `failure`."""
    READY_ONCE = enum.auto()
    """There is at most one `ready`, after the config and never after a `failure`."""
    ITEM_SENT = enum.auto()
    """The server speaks only of items that the client sent."""
    PLAN_ONCE = enum.auto()
    """An item has at most one plan."""
    PLAN_FIRST = enum.auto()
    """Features and completion of an item come after its plan."""
    PLAN_TENSOR = enum.auto()
    """A plan's tensor has the stream's element type and the size of its shape."""
    CHUNK_CONTIGUOUS = enum.auto()
    """A chunk begins where the one before it ended."""
    CHUNK_INSIDE = enum.auto()
    """Features do not reach past the plan's size."""
    CHUNK_SIZE = enum.auto()
    """A chunk has bytes, and no more of them than 1 MiB and the stream's limit."""
    LOCATION = enum.auto()
    """Features are in one handle of the kind that the config asked for, or all in chunks; inline only in chunks."""
    HANDLE = enum.auto()
    """A handle leads to all bytes of the plan's tensor, and names the memory and its use."""
    FEATURES_COMPLETE = enum.auto()
    """A completion comes after all bytes."""
    ITEM_OVER = enum.auto()
    """Nothing comes for an item after its end, a second end least of all."""
    ITEM_ENDED = enum.auto()
    """Every accepted item has ended when the stream ends."""
    ORDER = enum.auto()
    """Items end in the order sent, where the config asked for that."""
    PATH = enum.auto()
    """Ready, plan and provenance carry the method's path."""
    DIGEST = enum.auto()
    """A provenance carries the config digest of `ready`."""
    LABEL = enum.auto()
    """An end carries the item's label."""
    ERROR_REASON = enum.auto()
    """An item error has a reason of the contract, and `retry_after` exactly if that is retryable."""
    CANCELLED_ASKED = enum.auto()
    """Only an item that the client cancelled ends as CANCELLED."""
    GROUP = enum.auto()
    """Groups come only where the config asks for them, and hold two or more responses that are no groups."""
    SUMMARY_ONE = enum.auto()
    """A good stream has one `summary`, a broken one has none."""
    SUMMARY_LAST = enum.auto()
    """The `summary` comes after the half-close, and no message after it."""
    SUMMARY_SUMS = enum.auto()
    """The counts and bytes of the `summary` are those of the stream."""
    FAILURE_ONCE = enum.auto()
    """There is at most one `failure`, with a reason of the contract, naming the fields of a config that is refused."""
    STATUS_MATCHES = enum.auto()
    """The status is OK, or has the code of the `failure`'s reason; a refusal is never without a `failure`."""
    HALF_CLOSE_FIRST = enum.auto()
    """The server does not end a healthy stream before the client has half-closed."""
    STATUS_LAST = enum.auto()
    """The stream has one status, and nothing comes after it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule."""

    event_index: int
    """Which event broke it, counted from 0; the number of events where one is missing at the end."""
    party: Party
    rule: Rule
    text: str

    def __str__(self) -> str:
        return f"event {self.event_index} ({self.party}, {self.rule}): {self.text}"
