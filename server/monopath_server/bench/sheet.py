"""What was measured so far: figures, ratios and differences of their medians, and what could not be measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["AtLeast", "AtMost", "Bar", "Comparison", "Figure", "Reading", "Sheet", "Skipped"]


@dataclass(frozen=True, slots=True)
class AtMost:
    """The bar of a figure that is to be small."""

    limit: float

    def is_met(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value <= self.limit

    def __str__(self) -> str:
        return f"<= {self.limit:g}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The bar of a figure that is to be large."""

    limit: float

    def is_met(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.limit

    def __str__(self) -> str:
        return f">= {self.limit:g}"


Bar = AtMost | AtLeast


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample of one figure."""

    name: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True)
class Figure:
    """All samples of one thing."""

    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The sample in the middle."""
        return statistics.median(self.values)

    @property
    def p99(self) -> float:
        """The smallest sample that 99 % of them do not exceed."""
        ordered = sorted(self.values)
        return ordered[-(-99 * len(ordered) // 100) - 1]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two figures that took turns, beside each other."""

    name: str
    first: str
    second: str
    bar: Bar | None
    value: float
    """Quotient, or difference, of the medians: first by, or minus, second."""
    smallest: float
    """Of the quotients, or differences, round by round."""
    largest: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could not be measured here."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Pair:
    name: str
    first: str
    second: str
    bar: Bar | None


class Sheet:
    """Filled while a run goes on, so that one that is stopped has what it measured until then."""

    def __init__(self) -> None:
        self._samples: dict[str, list[float]] = {}
        self._units: dict[str, str] = {}
        self._ratios: dict[str, _Pair] = {}
        self._differences: dict[str, _Pair] = {}
        self._skipped: list[Skipped] = []
        self.curves: dict[str, list[tuple[float, float]]] = {}
        """Points (x, y) of what grows."""

    def record(self, reading: Reading) -> None:
        """Add a sample."""
        self._units[reading.name] = reading.unit
        self._samples.setdefault(reading.name, []).append(reading.value)

    def compare(self, name: str, first: str, second: str, bar: Bar | None = None) -> None:
        """Ask for the ratio of two figures' medians. Where one of them has no sample, there is none."""
        self._ratios[name] = _Pair(name, first, second, bar)

    def subtract(self, name: str, first: str, second: str, bar: Bar | None = None) -> None:
        """Ask for the difference of two figures' medians."""
        self._differences[name] = _Pair(name, first, second, bar)

    def skip(self, what: str, reason: str) -> None:
        """Say that something is not measured."""
        skipped = Skipped(what, reason)
        if skipped not in self._skipped:
            self._skipped.append(skipped)

    @property
    def skipped(self) -> Sequence[Skipped]:
        """What is not measured, and why."""
        return tuple(self._skipped)

    def figure(self, name: str) -> Figure | None:
        """Return a figure. None where it has no sample."""
        values = self._samples.get(name)
        return Figure(self._units[name], tuple(values)) if values else None

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures, in the order in which they were first measured."""
        return {name: Figure(self._units[name], tuple(values)) for name, values in self._samples.items()}

    @property
    def ratios(self) -> list[Comparison]:
        """All ratios whose figures have samples."""
        return [
            Comparison(
                pair.name,
                pair.first,
                pair.second,
                pair.bar,
                first.median / second.median,
                min(one / other for one, other in zip(first.values, second.values, strict=False)),
                max(one / other for one, other in zip(first.values, second.values, strict=False)),
            )
            for pair, first, second in self._present(self._ratios)
        ]

    @property
    def differences(self) -> list[Comparison]:
        """All differences whose figures have samples."""
        return [
            Comparison(
                pair.name,
                pair.first,
                pair.second,
                pair.bar,
                first.median - second.median,
                min(one - other for one, other in zip(first.values, second.values, strict=False)),
                max(one - other for one, other in zip(first.values, second.values, strict=False)),
            )
            for pair, first, second in self._present(self._differences)
        ]

    def _present(self, pairs: dict[str, _Pair]) -> list[tuple[_Pair, Figure, Figure]]:
        found = ((pair, self.figure(pair.first), self.figure(pair.second)) for pair in pairs.values())
        return [(pair, first, second) for pair, first, second in found if first is not None and second is not None]
