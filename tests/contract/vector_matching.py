"""What it means to match a vector: messages are compared as protobuf JSON, never as serialised bytes.

A client that can run vectors turns one into an `Outcome`; `mismatches` holds it against what the vector expects.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.message import Message

from tests.contract.vector_cases import Vector

__all__ = ["Outcome", "mismatches", "parse_response"]

_LEAK = re.compile(r"Traceback|<class|\.py\b|monopath_server|/work|/home|/usr|/tmp")  # found, not used


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client saw."""

    responses: tuple[Message, ...]
    code: str
    """Name of the status code: `OK`."""
    message: str
    reason: str
    """`google.rpc.ErrorInfo.reason`; empty where there is none."""
    domain: str
    violations: tuple[tuple[str, str], ...]
    """Field and description of each `google.rpc.BadRequest.FieldViolation`."""


def parse_response(vector: Vector, serialized: bytes | Mapping[str, Any]) -> Message:
    """A response of the vector's method, from its bytes or its protobuf JSON."""
    message = message_factory.GetMessageClass(vector.descriptor.output_type)()
    if isinstance(serialized, bytes):
        message.ParseFromString(serialized)
        return message
    return json_format.ParseDict(dict(serialized), message)


def mismatches(vector: Vector, outcome: Outcome) -> list[str]:
    """Says in words where an outcome is not what the vector expects; empty where it is."""
    return [
        *_status_mismatches(vector, outcome),
        *_event_mismatches(vector, outcome),
        *_feature_mismatches(vector, outcome),
        *_leaks(outcome),
    ]


def _status_mismatches(vector: Vector, outcome: Outcome) -> Iterator[str]:
    expected = (vector.expected_code, vector.expected_reason, sorted(vector.expected_violations))
    found = (outcome.code, outcome.reason, sorted(field for field, _ in outcome.violations))
    if found != expected:
        yield f"status: Expected {expected}, got {found}: {outcome.message}"
    if outcome.reason and outcome.domain != "monopath.v1":
        yield f"status: Expected the domain monopath.v1, got {outcome.domain!r}"
    for response in _dicts(outcome.responses):
        if "failure" not in response:
            continue
        failure = response["failure"]
        told = failure["reason"].removeprefix("STREAM_ERROR_REASON_")
        fields = tuple((violation["field"], violation["description"]) for violation in failure["violations"])
        if (told, fields) != (outcome.reason, outcome.violations):
            yield f"status: Expected what the failure says, {told} {fields}, got {outcome.reason} {outcome.violations}"


def _event_mismatches(vector: Vector, outcome: Outcome) -> Iterator[str]:
    """Events of one item have an order, and so have those of the stream; between them there is none."""
    expected = _lanes(vector.expected_events)
    found = _lanes(
        response
        for response in _dicts(outcome.responses)
        # A newer server's response without a known arm is for a client to skip, and some do not even show it.
        if "features" not in response and (response or not vector.newer)
    )
    for lane, events in found.items():
        if "error" in events[-1]:
            # How far an item came before it failed is the server's matter: it may have been planned, or not.
            found[lane] = [event for event in events if "plan" not in event]
    for lane in [*expected, *(lane for lane in found if lane not in expected)]:
        wanted, seen = expected.get(lane, []), found.get(lane, [])
        if len(wanted) != len(seen):
            names = [next(iter(event), "nothing") for event in seen]
            yield f"{lane}: Expected {len(wanted)} events, got {len(seen)}: {names} {_errors(seen)}"
        for number, (one, other) in enumerate(zip(wanted, seen, strict=False)):
            yield from _differences(f"{lane}, event {number}", one, other)


def _lanes(events: Iterator[dict[str, Any]] | Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    lanes: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        payload = next(iter(event.values()), None)
        of_item = isinstance(payload, Mapping) and "id" in payload
        lanes[f"item {payload['id']}" if of_item and isinstance(payload, Mapping) else "stream"].append(event)
    return lanes


def _errors(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [event["error"]["message"] for event in events if "error" in event]


def _differences(where: str, expected: object, found: object) -> Iterator[str]:
    """A message matches if all that is expected of it is there; a list only with the same length."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in expected.items():
            if key in found:
                yield from _differences(f"{where}.{key}", value, found[key])
            else:
                yield f"{where}.{key}: Expected {value!r}, got nothing"
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(f"{where}[{index}]", one, other)
    elif expected != found:
        yield f"{where}: Expected {expected!r}, got {found!r}"


def _feature_mismatches(vector: Vector, outcome: Outcome) -> Iterator[str]:
    found: dict[str, bytes] = defaultdict(bytes)
    for response in outcome.responses:
        message: Any = response
        if vector.path and message.WhichOneof("payload") == "features":
            found[str(message.features.id)] += message.features.chunk.data
    for item_id in sorted({*found, *vector.expected_features}):
        digest = hashlib.sha256(found[item_id]).hexdigest() if item_id in found else None
        if digest != vector.expected_features.get(item_id):
            expected = vector.expected_features.get(item_id)
            yield f"item {item_id}: Expected features of SHA-256 {expected}, got {digest}"


def _leaks(outcome: Outcome) -> Iterator[str]:
    texts = [outcome.message, *(description for _, description in outcome.violations)]
    for response in _dicts(outcome.responses):
        texts += [event.get("message", "") for event in response.values() if isinstance(event, Mapping)]
    for text in texts:
        if _LEAK.search(text):
            yield f"Expected a text without the server's insides, got {text!r}"


def _dicts(responses: Sequence[Message]) -> Iterator[dict[str, Any]]:
    for response in responses:
        yield json_format.MessageToDict(response, always_print_fields_with_no_presence=True)
