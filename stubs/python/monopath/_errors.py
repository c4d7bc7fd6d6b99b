"""Everything that this client raises, one sentence each. `monopath._status` is where statuses become these."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from monopath._enums import reason_traits

__all__ = [
    "CallError",
    "ConnectionFailed",
    "DeadlineExceeded",
    "FieldViolation",
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


class RequestRefused(CallError):
    """The server refused a unary call."""


class StreamRefused(CallError):
    """The server refused the stream before it was open, such as for its config."""


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
