"""The vectors are well formed, and together they cover the contract."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf import message_factory

from monopath.v1 import error_pb2
from tests.contract.vector_cases import GROUPS, VECTORS, Vector, load_vectors
from tests.support.grammar import Party, StreamTrace
from tests.support.options import SERVICE

_VECTORS = load_vectors()
_NOT_PROVOKED = {
    # A fault of the server, or a state of it that no request alone brings about; each with the test that does.
    "ITEM_ERROR_REASON_INTERNAL": "stream/test_items.py",
    "ITEM_ERROR_REASON_OVERLOADED": "load/test_burst.py",
    "ITEM_ERROR_REASON_DEVICE_OUT_OF_MEMORY": "stream/test_device.py",
    "STREAM_ERROR_REASON_INTERNAL": "load/test_faults.py",
    "STREAM_ERROR_REASON_OVERLOADED": "load/test_hostile_clients.py",
    # A server says it for an instant only: then nobody reaches it any more. So there, what a client makes of it.
    "STREAM_ERROR_REASON_DRAINING": "clients/test_moving.py",
    # Only time brings these about, and a vector that waits would take it from every client.
    "STREAM_ERROR_REASON_CLIENT_SILENT": "load/test_hostile_clients.py",
    "STREAM_ERROR_REASON_REPLIES_UNREAD": "load/test_hostile_clients.py",
    # Said by a server that asks for tokens, as none does that runs vectors.
    "STREAM_ERROR_REASON_CREDENTIALS_INVALID": "security/test_tokens.py",
}
_BROKEN_RULES = {
    # Not among them: `client_closed`, since gRPC itself lets no client say anything behind its half-close;
    # `type_of_path`, since what is of another type reads as a message without a payload; and `ready_awaited`, which is
    # a matter of time. `buf curl` breaks that with every vector.
    "payload_known",
    "config_first",
    "config_once",
    "id_increasing",
    "id_known",
    "request_bytes",
}


def test_every_method_has_a_vector_that_ends_well_and_one_that_does_not() -> None:
    outcomes = {(vector.method, vector.expected_code == "OK") for vector in _VECTORS}
    methods = {method.name for method in SERVICE.methods}
    assert outcomes == {(name, good) for name in methods for good in (True, False)} - {("GetCapabilities", False)}


def test_every_reason_that_a_request_can_bring_about_has_a_vector() -> None:
    seen = {
        event[arm]["reason"]
        for vector in _VECTORS
        if not vector.newer
        for event in vector.expected_events
        for arm in ("error", "failure")
        if arm in event
    } | {f"STREAM_ERROR_REASON_{vector.expected_reason}" for vector in _VECTORS if vector.expected_reason}
    enums = (error_pb2.ItemErrorReason.DESCRIPTOR, error_pb2.StreamErrorReason.DESCRIPTOR)
    assert seen | _NOT_PROVOKED.keys() == {value.name for enum in enums for value in enum.values if value.number != 0}
    assert not seen & _NOT_PROVOKED.keys()


@pytest.mark.parametrize(("reason", "file"), _NOT_PROVOKED.items())
def test_a_reason_without_a_vector_has_a_test_that_brings_it_about(reason: str, file: str) -> None:
    text = (VECTORS.parents[1] / file).read_text()
    assert re.search(rf"\b{reason.partition('_REASON_')[2]}\b", text)


def test_every_rule_that_a_client_can_break_is_broken_by_a_vector() -> None:
    broken = {
        str(violation.rule)
        for vector in _VECTORS
        if vector.path
        for violation in _unanswered(vector).violations(Party.CLIENT)
    }
    assert broken == _BROKEN_RULES


def _unanswered(vector: Vector) -> StreamTrace:
    """What the vector's client does, if it hears nothing but a ready."""
    trace = StreamTrace(vector.path)
    request_type = message_factory.GetMessageClass(vector.descriptor.input_type)
    response_type: Any = message_factory.GetMessageClass(vector.descriptor.output_type)
    for index, request in enumerate(vector.request_bytes()):
        trace.sent(request_type.FromString(request))
        if index == 0 and vector.expected_events and "ready" in vector.expected_events[0]:
            ready = response_type()
            ready.ready.path = vector.path
            trace.received(ready)
    trace.ended(0)
    return trace


def test_every_group_has_vectors() -> None:
    assert {vector.group for vector in _VECTORS} == set(GROUPS)


def test_every_arm_of_a_request_is_sent_by_a_vector() -> None:
    sent = {
        (vector.method, arm)
        for vector in _VECTORS
        if vector.path
        for document in vector.documents()
        for arm in document
    }
    arms = {
        (method.name, field.json_name)
        for method in SERVICE.methods
        for field in method.input_type.fields
        if method.name.startswith("Stream")
    }
    # Leases are released on the paths that give some; a stream without a lease says the same on every path.
    assert arms - sent <= {("StreamDeferredCuda", "release"), ("StreamDeferredCuda", "cancellation")}


def test_a_vector_says_why_it_is_there_and_its_requests_are_messages_of_its_method() -> None:
    for vector in _VECTORS:
        assert vector.why.endswith("."), vector.name
        assert len(vector.request_bytes()) == len(vector.requests)
