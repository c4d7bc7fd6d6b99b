"""Everything that this client raises, one sentence each. `monopath._status` is where statuses become these."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from monopath._enums import reason_traits

__all__ = [
    "CallError",
    "ConnectionFailed",
    "CredentialsRefused",
    "DeadlineExceeded",
    "FieldViolation",
    "ItemAttemptsExhausted",
    "ItemError",
    "MonopathError",
    "ProtocolError",
    "RequestRefused",
    "StreamBroken",
    "StreamClosed",
    "StreamMoved",
    "StreamRefused",
]


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One wrong, missing or ignored field."""

    field: str
    """Path of the field, as its author wrote it: `media_proc_cfg.patch_size`."""
    description: str
    """What was expected and what was found."""


_TRANSPORT_CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.CANCELLED,
)
"""What gRPC and proxies end a stream with whose server is gone."""


class MonopathError(Exception):
    """Whatever goes wrong between this client and a server."""


class ProtocolError(MonopathError):
    """The server broke the contract's grammar; nothing of the stream after that can be trusted."""


class StreamClosed(MonopathError):
    """The stream was used after it had been closed at this side."""


class StreamMoved(MonopathError):
    """The server asked to move to a new stream, and no new stream could carry on."""


class CallError(MonopathError):
    """A call or a stream ended with a status other than OK."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        violations: tuple[FieldViolation, ...] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        """The status code that the call ended with."""
        self.message = message
        """The same in words."""
        self.reason = reason
        """A `StreamErrorReason`; the name or number of one that this release does not know; "" where none was given."""
        self.violations = violations
        """Every wrong field, where fields are wrong."""
        self.retry_after_seconds = retry_after_seconds
        """When the same may be tried again, where the server said so."""

    @property
    def retryable(self) -> bool:
        """The same may succeed later, here or at another replica, without being changed."""
        traits = reason_traits(self.reason, of_item=False)
        return self.retry_after_seconds is not None if traits is None else traits.retryable

    @property
    def stream_may_resume(self) -> bool:
        """Items of the stream that have no end may be sent again on a new one, as `map` does by itself.

        True for errors that are `retryable`, and for statuses of the transport that no server of ours gave a reason to.
        """
        return self.retryable or (not self.reason and self.code in _TRANSPORT_CODES)

    def __str__(self) -> str:
        violations = "".join(f"\n  {violation.field}: {violation.description}" for violation in self.violations)
        return f"{self.reason or self.code.name}: {self.message}{violations}"


class ConnectionFailed(CallError):
    """No server was reached, or the connection to it was lost."""

    @property
    def retryable(self) -> bool:
        """Always: another try may reach a server."""
        return True


class DeadlineExceeded(CallError):
    """The caller's own `timeout_seconds` passed."""


class CredentialsRefused(CallError):
    """The server takes calls with a token only, and does not know this client's, or got none. No item was taken."""


class RequestRefused(CallError):
    """The server refused a unary call."""


class StreamRefused(CallError):
    """The stream was refused before it was open, such as for its config: by the server, or by what this host lacks."""


class StreamBroken(CallError):
    """An open stream ended with an error; items without an end may be sent again on a new one."""


class ItemError(MonopathError):
    """One item has no features; its stream and its neighbours go on. Found as a value in `Result.error`."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        field: str = "",
        item_id: int = 0,
        label: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(reason, message)
        self.reason = reason
        """An `ItemErrorReason`, or the number, as text, of one that this release does not know."""
        self.message = message
        """The same in words."""
        self.field = field
        """The field of the item that is wrong, where one is: `image.pixels.format`."""
        self.item_id = item_id
        self.label = label
        self.retry_after_seconds = retry_after_seconds
        """When the same item may be sent again, where the server said so."""

    @property
    def code(self) -> grpc.StatusCode:
        """The class of the error, as a status code; an item has no status of its own."""
        traits = reason_traits(self.reason, of_item=True)
        return grpc.StatusCode.UNKNOWN if traits is None else traits.code

    @property
    def retryable(self) -> bool:
        """The same item may succeed later without being changed."""
        traits = reason_traits(self.reason, of_item=True)
        return self.retry_after_seconds is not None if traits is None else traits.retryable

    def __str__(self) -> str:
        item = f"item {self.item_id}" + (f" ({self.label})" if self.label else "")
        field = f" [{self.field}]" if self.field else ""
        return f"{item}: {self.reason}{field}: {self.message}"


class ItemAttemptsExhausted(ItemError):
    """An item was sent as often as the caller's `Resume` allows, and each of those streams was lost before its end.

    Its `reason` is CLIENT_ATTEMPTS_EXHAUSTED, which is this client's own; no server sends it. What the last stream
    ended with is its `__cause__`.
    """

    REASON = "CLIENT_ATTEMPTS_EXHAUSTED"

    def __init__(self, lost: CallError, *, attempt_count: int, item_id: int, label: str) -> None:
        super().__init__(
            self.REASON,
            f"Expected the item's end on one of {attempt_count} streams, got none; the last one ended with {lost}",
            item_id=item_id,
            label=label,
        )
        self.attempt_count = attempt_count
        """How often the item was sent."""
        self.lost = lost
        """What the last of the streams ended with."""
        self.__cause__ = lost

    @property
    def code(self) -> grpc.StatusCode:
        """The code that the last stream ended with."""
        return self.lost.code

    @property
    def retryable(self) -> bool:
        """Always: the server never said that anything is wrong with the item."""
        return True
