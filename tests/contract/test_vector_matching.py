"""What it means to match a vector: an outcome that differs is named."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import json_format

from monopath.v1 import service_pb2
from tests.contract.vector_cases import Vector
from tests.contract.vector_matching import Outcome, mismatches


def _vector(**changes: Any) -> Vector:
    base = Vector(
        name="made_up",
        group="grammar",
        why="To see a vector fail.",
        method="StreamDeferredCpu",
        requests=(),
        half_close=True,
        expected_events=(
            {"ready": {"path": "PREPROCESSING_PATH_DEFERRED_CPU"}},
            {"completion": {"id": 1, "label": "one"}},
            {"failure": {"reason": "STREAM_ERROR_REASON_CONFIG_REPEATED"}},
        ),
        expected_features={"1": hashlib.sha256(b"bytes").hexdigest()},
        expected_code="INVALID_ARGUMENT",
        expected_reason="CONFIG_REPEATED",
        expected_violations=("config.output",),
        segments={},
        cuda=None,
        newer=False,
    )
    return replace(base, **changes)


def _outcome(**changes: Any) -> Outcome:
    events: list[dict[str, Any]] = [
        {"ready": {"path": "PREPROCESSING_PATH_DEFERRED_CPU", "device": "cpu"}},
        {"features": {"id": 1, "chunk": {"data": base64.b64encode(b"by").decode()}}},
        {"features": {"id": 1, "chunk": {"offsetBytes": 2, "data": base64.b64encode(b"tes").decode()}}},
        {"completion": {"id": 1, "label": "one"}},
        {
            "failure": {
                "reason": "STREAM_ERROR_REASON_CONFIG_REPEATED",
                "violations": [{"field": "config.output", "description": "Expected one, got two"}],
            }
        },
    ]
    responses = tuple(json_format.ParseDict(event, service_pb2.StreamDeferredCpuResponse()) for event in events)
    base = Outcome(
        responses=responses,
        code="INVALID_ARGUMENT",
        message="Expected one config, got two",
        reason="CONFIG_REPEATED",
        domain="monopath.v1",
        violations=(("config.output", "Expected one, got two"),),
    )
    return replace(base, **changes)


def test_what_a_vector_says_matches() -> None:
    assert mismatches(_vector(), _outcome()) == []


_RESPONSES = _outcome().responses


@pytest.mark.parametrize(
    ("vector", "outcome", "text"),
    [
        (_vector(), _outcome(code="INTERNAL"), "status: Expected"),
        (_vector(), _outcome(reason="CONFIG_MISSING"), "status: Expected"),
        (_vector(), _outcome(domain="other"), "the domain monopath.v1"),
        (_vector(), _outcome(violations=()), "status: Expected"),
        (_vector(expected_violations=()), _outcome(), "status: Expected"),
        (_vector(), _outcome(violations=(("config.output", "Another text"),)), "what the failure says"),
        (_vector(), _outcome(responses=_RESPONSES[:3] + _RESPONSES[4:]), "item 1: Expected 1 events, got 0"),
        (_vector(), _outcome(responses=_RESPONSES[1:]), "stream: Expected 2 events, got 1"),
        (_vector(expected_events=_vector().expected_events[1:]), _outcome(), "stream: Expected 1 events, got 2"),
        (_vector(), _outcome(responses=_RESPONSES[:2] + _RESPONSES[3:]), "features of SHA-256"),
        (_vector(expected_features={}), _outcome(), "features of SHA-256"),
        (_vector(), _outcome(message="Unexpected <class 'ValueError'>"), "the server's insides"),
        (_vector(), _outcome(message="in /work/server.py"), "the server's insides"),
    ],
)
def test_what_a_vector_does_not_say_is_named(vector: Vector, outcome: Outcome, text: str) -> None:
    found = mismatches(vector, outcome)
    assert any(text in mismatch for mismatch in found), found


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ({"completion": {"id": 1, "label": "two"}}, "label: Expected 'two', got 'one'"),
        ({"completion": {"id": 1, "provenance": {"path": 1}}}, "provenance: Expected"),
        ({"error": {"id": 1}}, "error: Expected"),
    ],
)
def test_an_event_that_differs_is_named(expected: dict[str, Any], text: str) -> None:
    ready, _, failure = _vector().expected_events
    found = mismatches(_vector(expected_events=(ready, expected, failure)), _outcome())
    assert any(text in mismatch for mismatch in found), found
