"""The vectors themselves: they are well formed, cover the contract, agree with the reference, and can fail."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format

from monopath.v1 import config_pb2, error_pb2, service_pb2, tensor_pb2
from monopath_server.reference import RawImage, ReferenceBackground, ReferenceConfig, reference_features
from tests.contract.vectors import Outcome, Vector, load_vectors, mismatches
from tests.support.options import SERVICE

_VECTORS = load_vectors()
_DEFERRED = [
    vector
    for vector in _VECTORS
    if vector.expected_features
    and vector.method != "StreamLocal"
    and "kimi" in vector.requests[0]["config"]["processor"]
]
_NOT_PROVOKED = {
    # A fault of the server, or a state of it that no request alone brings about.
    "ITEM_ERROR_REASON_INTERNAL",
    "ITEM_ERROR_REASON_OVERLOADED",
    "ITEM_ERROR_REASON_DEVICE_OUT_OF_MEMORY",
    "ITEM_ERROR_REASON_FEATURES_TOO_LARGE",
    "ITEM_ERROR_REASON_IMAGE_BYTES_EXCEEDED",
    "STREAM_ERROR_REASON_INTERNAL",
    "STREAM_ERROR_REASON_OVERLOADED",
    "STREAM_ERROR_REASON_DRAINING",
    "STREAM_ERROR_REASON_CLIENT_SILENT",
    "STREAM_ERROR_REASON_REPLIES_UNREAD",
    # No server of this release takes handles at all.
    "ITEM_ERROR_REASON_HANDLE_INVALID",
}


def test_every_method_has_a_vector_that_ends_well_and_one_that_does_not() -> None:
    outcomes = {(vector.method, vector.expected_code == "OK") for vector in _VECTORS}
    methods = {method.name for method in SERVICE.methods}
    assert outcomes == {(name, good) for name in methods for good in (True, False)} - {("GetCapabilities", False)}


def test_every_reason_that_a_request_can_bring_about_has_a_vector() -> None:
    seen = {
        event[arm]["reason"]
        for vector in _VECTORS
        for event in vector.expected_events
        for arm in ("error", "failure")
        if arm in event
    } | {f"STREAM_ERROR_REASON_{vector.expected_reason}" for vector in _VECTORS if vector.expected_reason}
    enums = (error_pb2.ItemErrorReason.DESCRIPTOR, error_pb2.StreamErrorReason.DESCRIPTOR)
    assert seen | _NOT_PROVOKED == {value.name for enum in enums for value in enum.values if value.number != 0}
    assert not seen & _NOT_PROVOKED


def test_a_vector_says_why_it_is_there_and_its_requests_are_messages_of_its_method() -> None:
    for vector in _VECTORS:
        assert vector.why.endswith("."), vector.name
        assert len(vector.request_bytes()) == len(vector.requests)


# ---- expected features, recomputed


def _config(vector: Vector) -> tuple[ReferenceConfig, str]:
    # The resolved config of presets and JSON texts stands in what is expected of `ready`.
    sources = (vector.requests[0]["config"]["processor"], vector.expected_events[0]["ready"].get("processor", {}))
    source = next(source for source in sources if "kimi" in source)
    message = json_format.ParseDict(source, config_pb2.ProcessorConfig()).kimi
    output = json_format.ParseDict(vector.requests[0]["config"]["output"], config_pb2.OutputConfig())
    mean, std = message.image_mean, message.image_std
    kernel = message.resample_kernel or config_pb2.RESAMPLE_KERNEL_PILLOW_13
    config = ReferenceConfig(
        patch_size=message.patch_size,
        merge_kernel_size=message.merge_kernel_size,
        in_patch_limit=message.in_patch_limit,
        patch_limit_on_one_side=message.patch_limit_on_one_side,
        image_mean=(mean.red, mean.green, mean.blue),
        image_std=(std.red, std.green, std.blue),
        background=ReferenceBackground() if message.HasField("transparent_bg_config") else None,
        resample_kernel=config_pb2.ResampleKernel.Name(kernel).removeprefix("RESAMPLE_KERNEL_"),  # type: ignore[arg-type]
    )
    return config, tensor_pb2.DataType.Name(output.data_type).removeprefix("DATA_TYPE_")


def _image(source: dict[str, Any]) -> bytes | RawImage:
    if "encoded" in source:
        return base64.b64decode(source["encoded"]["data"])
    pixels = source["pixels"]
    return RawImage(
        width_px=pixels["widthPx"],
        height_px=pixels["heightPx"],
        pixel_format=pixels["format"].removeprefix("PIXEL_FORMAT_"),
        data=base64.b64decode(pixels["data"]),
    )


def test_there_are_features_to_recompute() -> None:
    assert len(_DEFERRED) > 15


@pytest.mark.parametrize("vector", _DEFERRED, ids=lambda vector: vector.name)
def test_expected_features_and_plans_are_those_of_the_reference(vector: Vector) -> None:
    config, element_type = _config(vector)
    items = {
        str(request["item"]["id"]): request["item"] for request in vector.requests if "id" in request.get("item", {})
    }
    plans = {str(event["plan"]["id"]): event["plan"]["plan"] for event in vector.expected_events if "plan" in event}
    assert plans.keys() == vector.expected_features.keys()
    for item_id, digest in vector.expected_features.items():
        features = reference_features(_image(items[item_id]["image"]), config, element_type)
        values = features.pixel_values
        little_endian = values.astype(values.dtype.newbyteorder("<"))
        assert hashlib.sha256(little_endian.tobytes()).hexdigest() == digest
        plan = plans[item_id]
        assert tuple(plan["gridThw"][axis] for axis in "thw") == features.grid_thw
        assert (plan["tokenCount"], plan["features"]["sizeBytes"]) == (features.token_count, values.nbytes)
        assert [int(length) for length in plan["features"]["shape"]] == list(np.shape(values))
        assert (plan["resizedSize"]["widthPx"], plan["resizedSize"]["heightPx"]) == features.resized_size
        assert (plan["padding"]["rightPx"], plan["padding"]["bottomPx"]) == features.padding


# ---- a vector can fail


def _vector(**changes: Any) -> Vector:
    base = Vector(
        name="made_up",
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
        cuda=None,
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
