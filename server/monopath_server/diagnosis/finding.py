"""What a check found."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Finding", "Findings", "Level", "size_text"]


class Level(enum.StrEnum):
    """What a finding means for a server on this host."""

    OK = enum.auto()
    WARNING = enum.auto()
    """It runs, with less than it could have, or than its settings say."""
    PROBLEM = enum.auto()
    """It does not start."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact."""

    subject: str
    """A word or two: `shared memory`."""
    level: Level
    found: str
    advice: str = ""
    """What to change, where it is not OK."""


Findings = Iterator[Finding]


def size_text(size_bytes: int) -> str:
    """Write a number of bytes with few digits: 64 MiB, 23.5 GiB."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"
