"""What a sweep does along one axis: which source pixels it reads, and whether they are filtered."""

from __future__ import annotations

from dataclasses import dataclass

from monopath_server.processors.types import Size, Sweep
from monopath_server.transforms.coefficients import WeightRule, resample_weights

__all__ = ["SweepAxis", "sweep_axes"]


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """One axis of a sweep. Only what its crop needs is read and computed, however long the resized axis is."""

    source_count: int
    """Pixels of the whole axis, as `target_count`."""
    target_count: int
    source_begin: int
    source_end: int
    """[begin, end) of the source pixels that are read."""
    is_filtered: bool
    stretch: tuple[int, int] | None
    """[begin, end) of the target pixels that are computed; None: all."""


def sweep_axes(source: Size, sweep: Sweep, rule: WeightRule) -> tuple[SweepAxis, SweepAxis]:
    """Return the horizontal and the vertical axis of a sweep over an image of `source` pixels."""
    crop, target = sweep.crop, sweep.resized_size
    return (
        _axis(source.width_px, target.width_px, crop.left_px, crop.size.width_px, rule),
        _axis(source.height_px, target.height_px, crop.top_px, crop.size.height_px, rule),
    )


def _axis(source_count: int, target_count: int, begin: int, length: int, rule: WeightRule) -> SweepAxis:
    end = begin + length
    if (begin, end) == (0, target_count):
        return SweepAxis(source_count, target_count, 0, source_count, source_count != target_count, None)
    if source_count == target_count and begin >= 0 and end <= source_count:
        return SweepAxis(source_count, target_count, begin, end, False, None)
    # Zeros beyond an axis that keeps its size are made by a filter too: there its weights are one and nothing else.
    weights = resample_weights(source_count, target_count, rule, (begin, end))
    source_end = weights.source_begin + weights.source_count
    return SweepAxis(source_count, target_count, weights.source_begin, source_end, True, (begin, end))
