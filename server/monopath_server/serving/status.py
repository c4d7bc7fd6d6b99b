"""The one place where faults become gRPC statuses and item errors."""

from __future__ import annotations

import logging
from concurrent.futures import BrokenExecutor

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from monopath.v1 import error_pb2, options_pb2
from monopath_server.engine.executors import ExecutorUnavailable
from monopath_server.faults import ConfigFault, ConfigViolation, ItemFault, ItemReason, StreamFault, StreamReason
from monopath_server.serving.enums import ITEM_REASONS, STREAM_REASONS

__all__ = [
    "ERROR_DOMAIN",
    "as_item_fault",
    "as_stream_fault",
    "failure_message",
    "item_error_message",
    "status_of",
    "violation_messages",
]

ERROR_DOMAIN = "monopath.v1"
RETRY_AFTER = duration_pb2.Duration(seconds=1)

logger = logging.getLogger(__name__)


def as_stream_fault(error: Exception) -> StreamFault:
    """What a client may know of an exception that ends its stream. The unforeseen goes to the log alone."""
    match error:
        case StreamFault():
            return error
        case ConfigFault():
            fields = ", ".join(violation.field for violation in error.violations)
            message = f"The config is invalid: {fields}"
            return StreamFault(StreamReason.CONFIG_INVALID, message, violations=error.violations)
        case _:
            logger.error("A stream failed unexpectedly", exc_info=error)
            return StreamFault(StreamReason.INTERNAL, "Internal error; the server's log has the details")


def as_item_fault(error: Exception) -> ItemFault:
    """What a client may know of an exception that ends its item."""
    match error:
        case ItemFault():
            return error
        case MemoryError():
            logger.warning("An item did not fit into memory")
            return ItemFault(ItemReason.OVERLOADED, "The server has no memory for this item now")
        case BrokenExecutor() | ExecutorUnavailable():
            logger.error("An item's worker died", exc_info=error)
            return ItemFault(ItemReason.OVERLOADED, "The worker of this item died; another one takes its place")
        case _:
            logger.error("An item failed unexpectedly", exc_info=error)
            return ItemFault(ItemReason.INTERNAL, "Internal error; the server's log has the details")


def item_error_message(item_id: int, label: str, fault: ItemFault) -> error_pb2.ItemError:
    """The error event of an item."""
    return error_pb2.ItemError(
        id=item_id,
        label=label,
        reason=ITEM_REASONS.to_wire(fault.reason),
        message=fault.message,
        field=fault.field,
        retry_after=RETRY_AFTER if _item_traits(fault.reason).retryable else None,
    )


def failure_message(fault: StreamFault) -> error_pb2.StreamFailure:
    """The failure event of a stream."""
    return error_pb2.StreamFailure(
        reason=STREAM_REASONS.to_wire(fault.reason),
        message=fault.message,
        violations=violation_messages(fault.violations),
    )


def violation_messages(violations: tuple[ConfigViolation, ...]) -> list[error_pb2.FieldViolation]:
    """Field violations, or config warnings, as messages."""
    return [
        error_pb2.FieldViolation(field=violation.field, description=violation.description) for violation in violations
    ]


def status_of(fault: StreamFault) -> status_pb2.Status:
    """The status that ends a stream or a unary call, with its details."""
    traits = _stream_traits(fault.reason)
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=fault.reason.name, domain=ERROR_DOMAIN)]
    if fault.violations:
        details.append(
            error_details_pb2.BadRequest(
                field_violations=[
                    error_details_pb2.BadRequest.FieldViolation(
                        field=violation.field, description=violation.description, reason=fault.reason.name
                    )
                    for violation in fault.violations
                ]
            )
        )
    if traits.retryable:
        details.append(error_details_pb2.RetryInfo(retry_delay=RETRY_AFTER))
    status = status_pb2.Status(code=int(traits.code), message=fault.message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def _item_traits(reason: ItemReason) -> options_pb2.ReasonTraits:
    value = error_pb2.ItemErrorReason.DESCRIPTOR.values_by_number[ITEM_REASONS.to_wire(reason)]
    return value.GetOptions().Extensions[options_pb2.traits]


def _stream_traits(reason: StreamReason) -> options_pb2.ReasonTraits:
    value = error_pb2.StreamErrorReason.DESCRIPTOR.values_by_number[STREAM_REASONS.to_wire(reason)]
    return value.GetOptions().Extensions[options_pb2.traits]
