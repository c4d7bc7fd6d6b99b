"""Resize weights as 22-bit fixed point integers: made on the host in float64, used as integers everywhere."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monopath_server.processors.types import ResampleFilter, ResampleKernel

__all__ = ["PILLOW_BICUBIC", "WEIGHT_BITS", "ResampleWeights", "WeightPrecision", "WeightRule", "resample_weights"]

WEIGHT_BITS = 22
"""A weight of 1.0 is 2**22. Sums of weight * pixel stay within 57 % of int32, in any order of summation."""

_SUPPORTS = {ResampleFilter.BICUBIC: 2.0, ResampleFilter.BILINEAR: 1.0}
_CUBIC_A = -0.5
# Entries are up to 1 MB each for images of 65,535 pixels on a side, and 66 KB for an ordinary photo.
_CACHED_AXES = 128
_INT16_LIMIT = 32_768
_FEWEST_BITS = 14
"""No weight of these filters reaches 2, not even where an edge cuts the negative ones off."""
_TARGETS_AT_ONCE = 16_384


class WeightPrecision(enum.StrEnum):
    """How weights are rounded."""

    FIXED = enum.auto()
    """To 22 fraction bits: Pillow."""
    INT16 = enum.auto()
    """To as many fraction bits as let the axis's largest weight fit into int16, at most 22: torchvision. Kept here with
    22 fraction bits all the same, the lowest of them zero: both sides of the rounding shift are scaled alike."""


@dataclass(frozen=True, slots=True)
class WeightRule:
    """What decides the weights of an axis, besides its sizes."""

    filter: ResampleFilter
    precision: WeightPrecision

    @classmethod
    def of(cls, kernel: ResampleKernel, resample_filter: ResampleFilter) -> WeightRule:
        """The rule of a resize arithmetic."""
        precision = WeightPrecision.INT16 if kernel is ResampleKernel.ATEN_U8 else WeightPrecision.FIXED
        return cls(resample_filter, precision)


PILLOW_BICUBIC = WeightRule(ResampleFilter.BICUBIC, WeightPrecision.FIXED)


@dataclass(frozen=True, slots=True)
class ResampleWeights:
    """How an axis of `source_count` pixels becomes one of `target_count`. All arrays are read-only.

    Of a stretch of an axis both are counted within it: source pixel 0 is the axis's `source_begin`.
    """

    source_count: int
    target_count: int
    first: NDArray[np.int32]
    """[target_count]: index of the first source pixel of each target pixel, never falling."""
    count: NDArray[np.int32]
    """[target_count]: number of source pixels (taps) of each target pixel; `first + count <= source_count`."""
    weights: NDArray[np.int32]
    """[target_count, tap_count]: weights of 22 fraction bits; zero from `count` on."""
    source_begin: int = 0

    @property
    def tap_count(self) -> int:
        """Largest number of source pixels that any target pixel has."""
        return int(self.weights.shape[1])


@functools.lru_cache(maxsize=_CACHED_AXES)
def resample_weights(
    source_count: int,
    target_count: int,
    rule: WeightRule = PILLOW_BICUBIC,
    stretch: tuple[int, int] | None = None,
) -> ResampleWeights:
    """Make the weights of one axis, bit for bit those of Pillow or of torchvision.

    Every float64 operation and its order is Pillow's; the sum over the taps in particular is sequential.

    Args:
        source_count: Pixels of the axis.
        target_count: Pixels that it becomes.
        rule: What else decides the weights.
        stretch: [begin, end) of the target pixels that are wanted; None: all. Those beyond the axis have no taps, which
            makes them zeros.

    Raises:
        ValueError: a count is below 1.
    """
    if source_count < 1 or target_count < 1:
        raise ValueError(f"Expected counts of at least 1 pixel, got {source_count} and {target_count}")
    begin, end = stretch or (0, target_count)
    inner_begin, inner_end = max(begin, 0), min(end, target_count)
    first, count, weights = _float_weights(source_count, target_count, rule.filter, inner_begin, inner_end)
    bits = WEIGHT_BITS
    if rule.precision is WeightPrecision.INT16:
        is_whole = (inner_begin, inner_end) == (0, target_count)
        bits = _fraction_bits(
            float(weights.max()) if is_whole else _largest_weight(source_count, target_count, rule.filter)
        )
    rounded = np.trunc(weights * float(1 << bits) + np.where(weights < 0, -0.5, 0.5)).astype(np.int32)
    fixed = rounded << (WEIGHT_BITS - bits)
    source_begin = 0
    if stretch is not None:
        source_begin, source_count = int(first[0]), int((first + count).max()) - int(first[0])
        first = first - source_begin
        beyond = (inner_begin - begin, end - inner_end)
        first, count = np.pad(first, beyond, mode="edge"), np.pad(count, beyond)
        first[: beyond[0]] = 0
        fixed = np.pad(fixed, (beyond, (0, 0)))
    result = ResampleWeights(
        source_count, end - begin, first.astype(np.int32), count.astype(np.int32), fixed, source_begin
    )
    for array in (result.first, result.count, result.weights):
        array.setflags(write=False)
    return result


def _float_weights(
    source_count: int, target_count: int, resample_filter: ResampleFilter, begin: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """First source pixel and number of taps [end - begin], and weights [end - begin, taps] before their rounding."""
    scale = source_count / target_count
    filter_scale = max(scale, 1.0)
    support = _SUPPORTS[resample_filter] * filter_scale
    inverse = 1.0 / filter_scale
    centre = (np.arange(begin, end) + 0.5) * scale
    # Casting truncates toward zero, as in C.
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    count = np.minimum((centre + support + 0.5).astype(np.int64), source_count) - first

    tap = np.arange(int(count.max()))[None, :]
    is_used = tap < count[:, None]
    weigh = _cubic if resample_filter is ResampleFilter.BICUBIC else _triangle
    weights = np.where(is_used, weigh((tap + first[:, None] - centre[:, None] + 0.5) * inverse), 0.0)
    # Accumulating is sequential; summing would add in pairs, and round differently.
    total = np.add.accumulate(weights, axis=1)[:, -1:]
    return first, count, np.divide(weights, total, out=weights, where=total != 0.0)


def _largest_weight(source_count: int, target_count: int, resample_filter: ResampleFilter) -> float:
    """The largest of a whole axis, which may be millions of pixels long and is not kept."""
    largest = 0.0
    for begin in range(0, target_count, _TARGETS_AT_ONCE):
        end = min(begin + _TARGETS_AT_ONCE, target_count)
        largest = max(largest, float(_float_weights(source_count, target_count, resample_filter, begin, end)[2].max()))
        if _fraction_bits(largest) == _FEWEST_BITS:
            break
    return largest


def _fraction_bits(largest_weight: float) -> int:
    """As many as let the largest weight of an axis fit into int16."""
    bits = 0
    while bits < WEIGHT_BITS and int(0.5 + largest_weight * (1 << (bits + 1))) < _INT16_LIMIT:
        bits += 1
    return bits


def _triangle(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(1.0 - np.abs(distance), 0.0)


def _cubic(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keys' cubic with a = -0.5, in Pillow's order of operations."""
    x = np.abs(distance)
    inner = ((_CUBIC_A + 2.0) * x - (_CUBIC_A + 3.0)) * x * x + 1
    outer = (((x - 5) * x + 8) * x - 4) * _CUBIC_A
    return np.where(x < 1, inner, np.where(x < 2, outer, 0.0))
