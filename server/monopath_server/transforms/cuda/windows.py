"""Resample weights in the order in which the device reads them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from monopath_server.transforms.coefficients import PILLOW_BICUBIC, WeightRule, resample_weights

__all__ = ["UNROLL", "AxisKey", "AxisWindows", "axis_windows"]

UNROLL = 2
"""Taps per step of the device's loops; tap counts are padded to a multiple of it with weights of zero."""

_CACHED_AXES = 128

AxisKey: TypeAlias = tuple[int, int, WeightRule, tuple[int, int] | None]
"""Source count, target count, the rule of the weights, and the stretch of the target pixels that is wanted."""


@dataclass(frozen=True, slots=True)
class AxisWindows:
    """The windows of one axis of `source_count` pixels that becomes one of `target_count`, or of a stretch of it."""

    key: AxisKey
    """What decides the coefficients."""
    source_count: int
    target_count: int
    tap_count: int
    starts: NDArray[np.int32]
    """[target_count]: first source pixel of each window, never falling from one target to the next."""
    coefficients: NDArray[np.int32]
    """[target_count * (1 + tap_count)]: `starts`, then the weights tap by tap, so that neighbours read neighbours."""

    def source_range(self, begin: int, end: int) -> tuple[int, int]:
        """Source pixels [first, last + 1) that the target pixels [begin, end) read; empty for an empty range."""
        if begin >= end:
            return 0, 0
        return int(self.starts[begin]), min(int(self.starts[end - 1]) + self.tap_count, self.source_count)


@functools.lru_cache(maxsize=_CACHED_AXES)
def axis_windows(
    source_count: int,
    target_count: int,
    rule: WeightRule = PILLOW_BICUBIC,
    stretch: tuple[int, int] | None = None,
) -> AxisWindows:
    """Move the windows of `resample_weights` to the left so that all have one tap count and none leaves the axis.

    An axis shorter than the tap count is left through its end; the weights there are zero.
    """
    key = (source_count, target_count, rule, stretch)
    weights = resample_weights(*key)
    source_count, target_count = weights.source_count, weights.target_count
    tap_count = -(-weights.tap_count // UNROLL) * UNROLL
    starts = np.maximum(np.minimum(weights.first, source_count - tap_count), 0).astype(np.int32)
    shift = weights.first - starts
    moved = np.zeros((tap_count, target_count), np.int32)
    targets = np.arange(target_count)
    for tap in range(weights.tap_count):
        is_used = tap < weights.count
        moved[(shift + tap)[is_used], targets[is_used]] = weights.weights[is_used, tap]
    coefficients = np.concatenate([starts, moved.reshape(-1)])
    for array in (starts, coefficients):
        array.setflags(write=False)
    return AxisWindows(key, source_count, target_count, tap_count, starts, coefficients)
