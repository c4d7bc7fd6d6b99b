"""What a check found."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Finding", "Findings", "Level"]


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
