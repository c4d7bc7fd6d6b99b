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
    """How one axis of `source_count` pixels becomes one of `target_count`. All arrays are read-only."""

    source_count: int
    target_count: int
    first: NDArray[np.int32]
    """[target_count]: index of the first source pixel of each target pixel."""
    count: NDArray[np.int32]
    """[target_count]: number of source pixels (taps) of each target pixel; `first + count <= source_count`."""
    weights: NDArray[np.int32]
    """[target_count, tap_count]: weights of 22 fraction bits; zero from `count` on."""

    @property
    def tap_count(self) -> int:
        """Largest number of source pixels that any target pixel has."""
        return int(self.weights.shape[1])


@functools.lru_cache(maxsize=_CACHED_AXES)
def resample_weights(source_count: int, target_count: int, rule: WeightRule = PILLOW_BICUBIC) -> ResampleWeights:
    """Make the weights of one axis, bit for bit those of Pillow or of torchvision.

    Every float64 operation and its order is Pillow's; the sum over the taps in particular is sequential.

    Raises:
        ValueError: a count is below 1.
    """
    if source_count < 1 or target_count < 1:
        raise ValueError(f"Expected counts of at least 1 pixel, got {source_count} and {target_count}")
    scale = source_count / target_count
    filter_scale = max(scale, 1.0)
    support = _SUPPORTS[rule.filter] * filter_scale
    inverse = 1.0 / filter_scale
    centre = (np.arange(target_count) + 0.5) * scale
    # Casting truncates toward zero, as in C.
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    count = np.minimum((centre + support + 0.5).astype(np.int64), source_count) - first

    tap = np.arange(int(count.max()))[None, :]
    is_used = tap < count[:, None]
    weigh = _cubic if rule.filter is ResampleFilter.BICUBIC else _triangle
    weights = np.where(is_used, weigh((tap + first[:, None] - centre[:, None] + 0.5) * inverse), 0.0)
    # Accumulating is sequential; summing would add in pairs, and round differently.
    total = np.add.accumulate(weights, axis=1)[:, -1:]
    weights = np.divide(weights, total, out=weights, where=total != 0.0)
    bits = _fraction_bits(float(weights.max()), rule.precision)
    rounded = np.trunc(weights * float(1 << bits) + np.where(weights < 0, -0.5, 0.5)).astype(np.int32)
    fixed = rounded << (WEIGHT_BITS - bits)
    result = ResampleWeights(source_count, target_count, first.astype(np.int32), count.astype(np.int32), fixed)
    for array in (result.first, result.count, result.weights):
        array.setflags(write=False)
    return result


def _fraction_bits(largest_weight: float, precision: WeightPrecision) -> int:
    if precision is WeightPrecision.FIXED:
        return WEIGHT_BITS
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
