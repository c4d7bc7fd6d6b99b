"""Holds a request message to the rules that stand in the contract itself (`monopath.v1.rules`)."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from monopath.v1.options_pb2 import FieldRules, rules
from monopath_server.faults import ConfigViolation

__all__ = ["find_violations"]


class _Kind(enum.Enum):
    REPEATED = enum.auto()
    MESSAGE = enum.auto()
    ENUM = enum.auto()
    BYTES = enum.auto()
    NUMBER = enum.auto()
    BOOL = enum.auto()


@dataclass(frozen=True, slots=True)
class _Field:
    """A field with its rules, read from its descriptor once."""

    name: str
    kind: _Kind
    holds_messages: bool
    has_presence: bool
    rules: FieldRules
    enum_names: Mapping[int, str]


def find_violations(message: Message, prefix: str) -> tuple[ConfigViolation, ...]:
    """Every field of `message` and of the messages in it that breaks a rule: absent where required, out of range, too
    short or too long, an enum unset or unknown. `prefix` is the path of `message` itself."""
    return tuple(_violations(message, prefix, FieldRules()))


def _violations(message: Message, prefix: str, outer: FieldRules) -> Iterator[ConfigViolation]:
    for field in _fields(message.DESCRIPTOR):
        path = f"{prefix}.{field.name}" if prefix else field.name
        if field.has_presence and not message.HasField(field.name):
            if field.rules.required:
                yield ConfigViolation(path, "Expected a value, got none")
            continue
        value = getattr(message, field.name)
        match field.kind:
            case _Kind.REPEATED:
                yield from _length(path, len(value), field.rules, "elements")
                if field.holds_messages:
                    for index, element in enumerate(value):
                        yield from _violations(element, f"{path}[{index}]", field.rules)
            case _Kind.MESSAGE:
                yield from _violations(value, path, field.rules)
            case _Kind.ENUM:
                yield from _enum(path, value, field.enum_names)
            case _Kind.BYTES:
                length = len(value.encode()) if isinstance(value, str) else len(value)
                if field.rules.required and length == 0:
                    yield ConfigViolation(path, "Expected a value, got none")
                else:
                    yield from _length(path, length, field.rules, "bytes")
            case _Kind.NUMBER:
                yield from _range(path, value, field.rules, outer)
            case _Kind.BOOL:
                raise AssertionError("Expected a field that something is demanded of, got a bool")


@functools.cache
def _fields(descriptor: Descriptor) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            name=field.name,
            kind=_kind(field),
            holds_messages=field.message_type is not None,
            has_presence=field.has_presence,
            rules=field.GetOptions().Extensions[rules],
            enum_names={value.number: value.name for value in field.enum_type.values} if field.enum_type else {},
        )
        for field in descriptor.fields
        if _is_held_to_anything(field)
    )


def _is_held_to_anything(field: FieldDescriptor) -> bool:
    """Items are many, and most of their fields may have any value. A number may be held to its message's rules."""
    kind = _kind(field)
    if kind is _Kind.BOOL:
        return False
    has_rules = field.GetOptions().HasExtension(rules)
    if kind is _Kind.REPEATED:
        return has_rules or field.message_type is not None
    return has_rules or kind is not _Kind.BYTES


def _kind(field: FieldDescriptor) -> _Kind:
    if field.is_repeated:
        return _Kind.REPEATED
    if field.message_type is not None:
        return _Kind.MESSAGE
    if field.enum_type is not None:
        return _Kind.ENUM
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return _Kind.BYTES
    return _Kind.BOOL if field.type == FieldDescriptor.TYPE_BOOL else _Kind.NUMBER


def _enum(path: str, number: int, names: Mapping[int, str]) -> Iterator[ConfigViolation]:
    if number != 0 and number in names:
        return
    allowed = ", ".join(name for known, name in names.items() if known != 0)
    found = "an unset value" if number == 0 else f"the unknown number {number}"
    yield ConfigViolation(path, f"Expected one of {allowed}, got {found}")


def _range(path: str, value: float, *rules_that_hold: FieldRules) -> Iterator[ConfigViolation]:
    bounds = []
    is_broken = not math.isfinite(value)
    if is_broken:
        bounds.append("a finite number")
    for field_rules in rules_that_hold:
        if field_rules.HasField("minimum"):
            bounds.append(f"at least {field_rules.minimum:.15g}")
            is_broken |= value < field_rules.minimum
        if field_rules.HasField("maximum"):
            bounds.append(f"at most {field_rules.maximum:.15g}")
            is_broken |= value > field_rules.maximum
        if field_rules.HasField("greater_than"):
            bounds.append(f"more than {field_rules.greater_than:.15g}")
            is_broken |= value <= field_rules.greater_than
    if is_broken:
        yield ConfigViolation(path, f"Expected {' and '.join(bounds)}, got {value}")


def _length(path: str, length: int, field_rules: FieldRules, unit: str) -> Iterator[ConfigViolation]:
    if field_rules.HasField("min_length") and length < field_rules.min_length:
        yield ConfigViolation(path, f"Expected at least {field_rules.min_length} {unit}, got {length}")
    if field_rules.HasField("max_length") and length > field_rules.max_length:
        yield ConfigViolation(path, f"Expected at most {field_rules.max_length} {unit}, got {length}")
