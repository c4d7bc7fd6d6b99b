"""What single JSON values may be: small readers that return a typed value or say what was expected."""

from __future__ import annotations

import json
from typing import TypeVar

from monopath_server.processors.ranges import ChannelValues, shorten
from monopath_server.processors.types import BackgroundPattern, FillStage

__all__ = [
    "RefusedValue",
    "boolean",
    "channel_values",
    "false_or_null",
    "fill_stage",
    "integer",
    "integer_or_none",
    "merge_kernel_size",
    "number",
    "pattern",
    "show",
]

Named = TypeVar("Named", BackgroundPattern, FillStage)


class RefusedValue(Exception):
    """One value is not what its key needs; the message says what was expected."""


def integer(value: object) -> int:
    """A whole number; 14.0 is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise RefusedValue(f"Expected a whole number, got {show(value)}")
    return value


def integer_or_none(value: object) -> int | None:
    """A whole number or null."""
    return None if value is None else integer(value)


def boolean(value: object) -> bool:
    """True or false; 1 is neither."""
    if not isinstance(value, bool):
        raise RefusedValue(f"Expected true or false, got {show(value)}")
    return value


def false_or_null(value: object) -> None:
    """A step that is left out."""
    if value is not None and value is not False:
        raise RefusedValue(f"Expected false or null, got {show(value)}")


def number(value: object) -> float:
    """A whole or broken number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedValue(f"Expected numbers, got {show(value)}")
    try:
        return float(value)
    except OverflowError:
        raise RefusedValue(f"Expected numbers that fit into 64 bits, got {shorten(value)}") from None


def channel_values(value: object) -> ChannelValues:
    """Three numbers; a single one, or a list of one, stands for all three, as numpy broadcasts it."""
    numbers = [number(entry) for entry in value] if isinstance(value, list) else [number(value)]
    if len(numbers) == 1:
        return (numbers[0], numbers[0], numbers[0])
    if len(numbers) != 3:
        raise RefusedValue(f"Expected 3 numbers or 1, got {len(numbers)}")
    return (numbers[0], numbers[1], numbers[2])


def merge_kernel_size(value: object) -> int:
    """A number, or a list of two equal ones."""
    if not isinstance(value, list):
        return integer(value)
    sides = [integer(entry) for entry in value]
    if len(sides) != 2 or sides[0] != sides[1]:
        raise RefusedValue(f"Expected a whole number or two equal ones, got {show(value)}")
    return sides[0]


def pattern(value: object) -> BackgroundPattern:
    """The name of a background pattern."""
    return named(value, BackgroundPattern)


def fill_stage(value: object) -> FillStage:
    """The name of a fill stage."""
    return named(value, FillStage)


def named(value: object, names: type[Named]) -> Named:
    """One of an enum's names."""
    for name in names:
        if value == name.value:
            return name
    raise RefusedValue(f"Expected one of {', '.join(name.value for name in names)}, got {show(value)}")


def show(value: object) -> str:
    """Write a JSON value for an error text: its kind where it is large, itself where it is not."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return shorten(value)
        case str():
            return json.dumps(shorten(value))
        case list() if len(value) <= 4 and not any(isinstance(entry, list | dict) for entry in value):
            return f"[{', '.join(show(entry) for entry in value)}]"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
        case _:
            return "an unknown value"
