"""What a run measures, and how long it may take."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from monopath import DataType
from monopath_server.processors.types import ElementType, Size

__all__ = ["FULL", "QUICK", "Pace", "Scope", "Section", "type_name"]


class Section(enum.StrEnum):
    """The parts of a run."""

    CPU = enum.auto()
    """Each stage, and the whole of a worker's work, in this process."""
    SERVED = enum.auto()
    """Images a second through a server, on one to sixteen streams."""
    LATENCY = enum.auto()
    """One image at a time through a server."""
    MEMORY = enum.auto()
    """What an image in flight takes of a server."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things are measured. A cell is what takes turns with each other."""

    min_rounds: int
    max_rounds: int
    cell_seconds: float
    """A cell of the CPU section ends after the round in which it has taken so long."""
    sample_seconds: float
    """A sample repeats what is shorter."""
    served_seconds: float
    """As `cell_seconds`, for images a second through a server."""
    passage_seconds: float
    """How long the images of one passage take without a server, about."""
    latency_seconds: float
    """As `cell_seconds`, for each size that is sent one at a time."""
    max_latency_rounds: int
    is_quick: bool


FULL = Pace(
    min_rounds=5,
    max_rounds=40,
    cell_seconds=12.0,
    sample_seconds=0.02,
    served_seconds=90.0,
    passage_seconds=0.8,
    latency_seconds=10.0,
    max_latency_rounds=1000,
    is_quick=False,
)
QUICK = Pace(
    min_rounds=3,
    max_rounds=15,
    cell_seconds=1.2,
    sample_seconds=0.005,
    served_seconds=12.0,
    passage_seconds=0.3,
    latency_seconds=1.0,
    max_latency_rounds=200,
    is_quick=True,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is measured."""

    sizes: tuple[Size, ...]
    presets: tuple[str, ...]
    element_type: ElementType
    sections: tuple[Section, ...]
    pace: Pace

    @property
    def data_type(self) -> DataType:
        """`element_type` as the client calls it."""
        return DataType(self.element_type.value)

    @property
    def core_count(self) -> int:
        """Cores that this process may use."""
        return len(os.sched_getaffinity(0))

    @property
    def served_preset(self) -> str:
        """The config that is measured through a server: one, since the server's share hardly depends on it."""
        return self.presets[0]

    @property
    def stream_counts(self) -> tuple[int, ...]:
        """Streams at the same time."""
        return (1, 4, 16) if self.pace.is_quick else (1, 2, 4, 8, 16)


def type_name(element_type: ElementType) -> str:
    """Write an element type as keys of the report have it."""
    return {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "uint8": "u8"}[element_type.value]
