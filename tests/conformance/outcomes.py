"""From the line that a conformance program answers to an outcome, and everything that an outcome is held against."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format, message_factory

from tests.contract.vector_cases import Vector
from tests.contract.vector_matching import Outcome, mismatches, parse_response
from tests.support.grammar import Party, Rule, StreamTrace

__all__ = ["ReplyInvalid", "Skipped", "faults", "read_reply"]

_STATUS_KEYS = {"code", "message", "reason", "domain", "violations"}


class ReplyInvalid(Exception):
    """A program broke the protocol; the text says how."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A client cannot run a vector."""

    why: str


def read_reply(vector: Vector, line: str) -> Outcome | Skipped:
    """Read a program's answer to the job of `vector`. Raises ReplyInvalid where it is none."""
    try:
        reply = json.loads(line)
    except json.JSONDecodeError as error:
        raise ReplyInvalid(f"Expected a line of JSON, got {line[:200]!r}") from error
    if not isinstance(reply, dict) or reply.get("name") != vector.name:
        raise ReplyInvalid(f"Expected an answer to {vector.name}, got {line[:200]!r}")
    if reply.keys() == {"name", "skipped"} and isinstance(reply["skipped"], str) and reply["skipped"]:
        return Skipped(reply["skipped"])
    if reply.keys() != {"name", "responses", "status"}:
        raise ReplyInvalid(f"Expected responses and status, or why it was skipped, got {sorted(reply)}")
    try:
        return _outcome(vector, reply["responses"], reply["status"])
    except (json_format.ParseError, TypeError, KeyError, AttributeError) as error:
        raise ReplyInvalid(f"Expected responses of {vector.method} and a status, got {error}") from error


def _outcome(vector: Vector, responses: Any, status: Any) -> Outcome:
    if status.keys() != _STATUS_KEYS:
        raise ReplyInvalid(f"Expected a status with {sorted(_STATUS_KEYS)}, got {sorted(status)}")
    if status["code"] not in grpc.StatusCode.__members__:
        raise ReplyInvalid(f"Expected the name of a status code, got {status['code']!r}")
    return Outcome(
        responses=tuple(parse_response(vector, response) for response in responses),
        code=status["code"],
        message=status["message"],
        reason=status["reason"],
        domain=status["domain"],
        violations=tuple((found["field"], found["description"]) for found in status["violations"]),
    )


def faults(vector: Vector, outcome: Outcome) -> list[str]:
    """Say in words what is wrong with an outcome: where it is not what the vector says, or breaks the grammar."""
    found = mismatches(vector, outcome)
    if vector.path:
        violations = _trace(vector, outcome).violations(Party.SERVER)
        if vector.newer:
            # A newer server's reasons are not those of this contract.
            violations = tuple(violation for violation in violations if violation.rule != Rule.ERROR_REASON)
        found += [f"grammar: {violation}" for violation in violations]
    return found


def _trace(vector: Vector, outcome: Outcome) -> StreamTrace:
    """The stream as a client saw it that waited for its first response, then wrote, then read.

    When the rest was read while it was written is not told by an outcome; so the rules of what comes before the
    half-close are held by the tests that see the stream itself.
    """
    trace = StreamTrace(vector.path)
    request_type = message_factory.GetMessageClass(vector.descriptor.input_type)
    requests = [request_type.FromString(request) for request in vector.request_bytes()]
    for request in requests[:1]:
        trace.sent(request)
    for response in outcome.responses[:1]:
        trace.received(response)
    for request in requests[1:]:
        trace.sent(request)
    if vector.half_close:
        trace.half_closed()
    for response in outcome.responses[1:]:
        trace.received(response)
    trace.ended(grpc.StatusCode[outcome.code].value[0])
    return trace
