"""Texts of the command line that stand for numbers or pairs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer

__all__ = ["PresetFile", "bytes_between", "parse_preset"]

_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_NUMBER_WITH_UNIT = re.compile(r"(\d{1,18})\s*([a-z]*)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PresetFile:
    """A config that a server is to have under a name."""

    name: str
    path: Path


def parse_preset(text: str | PresetFile) -> PresetFile:
    """Read NAME=FILE. Raises typer.BadParameter."""
    if isinstance(text, PresetFile):
        return text
    name, separator, path = text.partition("=")
    if not separator or not name or not path:
        raise typer.BadParameter(f"Expected NAME=FILE, got {text!r}")
    return PresetFile(name, Path(path))


def bytes_between(low: int, high: int) -> Callable[[str | int], int]:
    """Return a reader of numbers of bytes, such as 65536, 64KiB and 1GiB. It raises typer.BadParameter."""

    def parse(text: str | int) -> int:
        if isinstance(text, int):
            return text
        match = _NUMBER_WITH_UNIT.fullmatch(text.strip())
        factor = _UNITS.get(match[2].lower()) if match else None
        if match is None or factor is None:
            raise typer.BadParameter(f"Expected a number of bytes such as 65536, 64KiB, 16MiB, got {text!r}")
        value = int(match[1]) * factor
        if not low <= value <= high:
            raise typer.BadParameter(f"Expected {low} to {high} bytes, got {value}")
        return value

    parse.__name__ = "BYTES"
    return parse
