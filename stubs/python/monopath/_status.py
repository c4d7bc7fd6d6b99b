"""From gRPC's statuses to this client's errors, in this one place."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from monopath._enums import reason_traits, stream_error_reason
from monopath._errors import (
    CallError,
    ConnectionFailed,
    CredentialsRefused,
    DeadlineExceeded,
    FieldViolation,
    RequestRefused,
    StreamBroken,
    StreamRefused,
)
from monopath._records import violations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monopath.v1 import error_pb2

__all__ = ["Phase", "error_code", "error_of_failure", "error_of_status"]

_DOMAIN = "monopath.v1"
_DETAILS_KEY = "grpc-status-details-bin"


class Phase(enum.Enum):
    """Where a call stood when it ended."""

    UNARY = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()


_ERRORS: dict[Phase, type[CallError]] = {
    Phase.UNARY: RequestRefused,
    Phase.OPENING: StreamRefused,
    Phase.OPEN: StreamBroken,
}


def error_of_status(error: grpc.RpcError, phase: Phase, failure: error_pb2.StreamFailure | None = None) -> CallError:
    """Return the error that says what a call ended with.

    `failure` is what the server told in the stream itself before; it speaks where the status says nothing, such as when
    the connection was lost behind it.
    """
    call = _call(error)
    code, message = call.code(), call.details() or ""
    reason, wrong_fields, retry_after_seconds = _details(call.trailing_metadata() or ())
    if not reason and failure is not None:
        return error_of_failure(failure, phase, code=code)
    if not reason and code is grpc.StatusCode.UNAVAILABLE:
        return ConnectionFailed(code, message, retry_after_seconds=retry_after_seconds)
    if not reason and code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(code, message, retry_after_seconds=retry_after_seconds)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        # A proxy before the server says it too, without a reason.
        return CredentialsRefused(code, message, reason=reason)
    if not wrong_fields and failure is not None:
        wrong_fields = violations(failure.violations)
    return _ERRORS[phase](
        code, message, reason=reason, violations=wrong_fields, retry_after_seconds=retry_after_seconds
    )


def error_of_failure(
    failure: error_pb2.StreamFailure, phase: Phase, *, code: grpc.StatusCode | None = None
) -> CallError:
    """Return the error of a stream that told its failure; without `code`, with the one that its reason has."""
    reason = stream_error_reason(failure.reason)
    if code is None:
        traits = reason_traits(reason, of_item=False)
        code = grpc.StatusCode.UNKNOWN if traits is None else traits.code
    return _ERRORS[phase](code, failure.message, reason=reason, violations=violations(failure.violations))


def error_code(error: grpc.RpcError) -> grpc.StatusCode:
    """Return the code that a call ended with."""
    return _call(error).code()


def _call(error: grpc.RpcError) -> grpc.Call:
    # Every error that a call ends with is a call too, or has the same methods; gRPC's types do not say so.
    return cast("grpc.Call", error)


def _details(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str, tuple[FieldViolation, ...], float | None]:
    details = next((value for key, value in metadata if key == _DETAILS_KEY), b"")
    try:
        return _read_details(details if isinstance(details, bytes) else b"")
    except DecodeError:
        # A proxy's or another service's; the code and the message still stand.
        return "", (), None


def _read_details(serialized: bytes) -> tuple[str, tuple[FieldViolation, ...], float | None]:
    reason, wrong_fields, retry_after_seconds = "", tuple[FieldViolation, ...](), None
    for detail in status_pb2.Status.FromString(serialized).details:
        info = error_details_pb2.ErrorInfo()
        request = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = stream_error_reason(info.reason) if info.domain == _DOMAIN else reason
        elif detail.Unpack(request):
            wrong_fields = tuple(
                FieldViolation(violation.field, violation.description) for violation in request.field_violations
            )
        elif detail.Unpack(retry):
            retry_after_seconds = retry.retry_delay.ToNanoseconds() / 1e9
    return reason, wrong_fields, retry_after_seconds
