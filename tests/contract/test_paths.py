"""One method is one path: enum values, methods and message types are one-to-one, in the schema and on the wire."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

from monopath.v1 import path_pb2
from tests.support.options import SERVICE, current_files, declared_options, message_path, method_path, path_name

_PATHS = [number for number in path_pb2.PreprocessingPath.values() if number != 0]
_ARM_NUMBERS = {"LOCAL": range(31, 40), "DEFERRED_CUDA": range(11, 20), "DEFERRED_CPU": range(21, 30)}
_SHARED_ARM_NUMBERS = range(1, 10)
_PATH_TYPE_ARMS = {"config", "item", "item_features", "features", "completion", "group"}
"""Arms whose messages belong to one path. All other arms' messages are shared."""
_OTHER_VALUES: dict[int, object] = {
    FieldDescriptor.TYPE_STRING: "x",
    FieldDescriptor.TYPE_BYTES: b"x",
    FieldDescriptor.TYPE_BOOL: True,
}
"""A value that is not the default, of the types that do not take 1."""


def _method(path: int) -> MethodDescriptor:
    (method,) = [method for method in SERVICE.methods if method_path(method) == path]
    return method


def _arms(message: Descriptor) -> list[FieldDescriptor]:
    return list(message.oneofs_by_name["payload"].fields)


def _path_types(path: int) -> dict[str, str]:
    """Arm name to message type, of the arms whose types belong to one path."""
    arms = [*_arms(_method(path).input_type), *_arms(_method(path).output_type)]
    return {arm.name: _type_of(arm).full_name for arm in arms if arm.name in _PATH_TYPE_ARMS}


def _type_of(arm: FieldDescriptor) -> Descriptor:
    assert arm.message_type is not None, arm.full_name
    return arm.message_type


def _filled(message: Any, depth: int = 3) -> Any:
    """The message with a value that is not the default in every field of it, as far as `depth` messages down."""
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof and message.WhichOneof(field.containing_oneof.name):
            continue
        if field.message_type:
            target = getattr(message, field.name)
            if field.is_repeated:
                target = target.add()
            target.SetInParent()
            if depth:
                _filled(target, depth - 1)
            continue
        value = _OTHER_VALUES.get(field.type, 1)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    return message


def _with_arm(message_type: Descriptor, arm: FieldDescriptor) -> Any:
    message: Any = message_factory.GetMessageClass(message_type)()
    getattr(message, arm.name).SetInParent()
    _filled(getattr(message, arm.name))
    return message


@pytest.mark.parametrize("path", _PATHS, ids=path_name)
def test_a_path_is_one_bidirectional_method_that_is_named_after_it(path: int) -> None:
    method = _method(path)
    assert (method.client_streaming, method.server_streaming) == (True, True)
    camel_case = "".join(word.capitalize() for word in path_name(path).split("_"))
    assert method.name == f"Stream{camel_case}"


def test_methods_without_a_path_are_unary() -> None:
    others = [method for method in SERVICE.methods if method_path(method) == 0]
    assert {method.name for method in others} == {"Plan", "GetCapabilities"}
    assert not any(method.client_streaming or method.server_streaming for method in others)


@pytest.mark.parametrize("path", _PATHS, ids=path_name)
def test_requests_responses_and_their_own_arms_carry_the_path_of_their_method(path: int) -> None:
    method = _method(path)
    assert message_path(method.input_type) == path
    assert message_path(method.output_type) == path
    for arm in [*_arms(method.input_type), *_arms(method.output_type)]:
        assert message_path(_type_of(arm)) == (path if arm.name in _PATH_TYPE_ARMS else 0), arm.full_name


def test_no_message_type_serves_two_paths_and_each_belongs_to_the_path_of_its_name() -> None:
    owners: dict[str, int] = {}
    for path in _PATHS:
        types = _path_types(path)
        assert {"config", "item", "features", "completion"} <= set(types)
        for full_name in types.values():
            assert owners.setdefault(full_name, path) == path
    for path in _PATHS:
        method = _method(path)
        owners[method.input_type.full_name] = owners[method.output_type.full_name] = path
    paths = declared_options(current_files()).message_paths
    declared = {name: number for name, number in paths.items() if number}
    assert declared == owners
    for full_name, owner in owners.items():
        assert _method(owner).name.removeprefix("Stream") in full_name


@pytest.mark.parametrize("path", _PATHS, ids=path_name)
def test_arm_numbers_of_a_path_lie_in_its_own_range(path: int) -> None:
    own = _ARM_NUMBERS[path_name(path)]
    for arm in _arms(_method(path).input_type):
        assert arm.number in own, arm.full_name
    for arm in _arms(_method(path).output_type):
        assert arm.number in (own if arm.name in _PATH_TYPE_ARMS else _SHARED_ARM_NUMBERS), arm.full_name


def test_ranges_of_arm_numbers_do_not_overlap() -> None:
    ranges = [*_ARM_NUMBERS.values(), _SHARED_ARM_NUMBERS]
    assert set(_ARM_NUMBERS) == {path_name(path) for path in _PATHS}
    assert all(not set(one) & set(other) for one, other in itertools.combinations(ranges, 2))


def test_shared_responses_have_the_same_number_on_every_path() -> None:
    shared = [
        {arm.name: arm.number for arm in _arms(_method(path).output_type) if arm.name not in _PATH_TYPE_ARMS}
        for path in _PATHS
    ]
    assert all(numbers == shared[0] for numbers in shared)
    assert set(shared[0]) == {"ready", "plan", "error", "summary", "goaway", "failure"}


@pytest.mark.parametrize(
    ("own", "other"),
    list(itertools.permutations(_PATHS, 2)),
    ids=lambda path: path_name(path),
)
def test_bytes_of_one_path_read_as_no_known_payload_on_another(own: int, other: int) -> None:
    pairs = [
        (_method(own).input_type, _method(other).input_type),
        (_method(own).output_type, _method(other).output_type),
    ]
    checked = set()
    for own_type, other_type in pairs:
        reader = message_factory.GetMessageClass(other_type)
        for arm in _arms(own_type):
            if own_type is pairs[1][0] and arm.name not in _PATH_TYPE_ARMS:
                continue  # What all responses share is meant to read the same.
            wire = _with_arm(own_type, arm).SerializeToString()
            message: Any = reader.FromString(wire)
            assert len(wire) > 2
            assert message.WhichOneof("payload") is None, arm.full_name
            assert message.SerializeToString() == wire
            checked.add(arm.name)
    assert {"config", "item", "features", "completion", "release", "cancellation"} <= checked
