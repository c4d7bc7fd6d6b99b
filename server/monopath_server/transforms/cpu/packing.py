"""Lays out the weights of an axis for the kernel, and keeps the latest ones."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monopath_server.transforms.coefficients import WeightRule, resample_weights
from monopath_server.transforms.cpu.arguments import HorizontalPass, VerticalPass

__all__ = ["NO_HORIZONTAL_PASS", "NO_VERTICAL_PASS", "PackedHorizontalPass", "pack_horizontal", "pack_vertical"]

_CACHED_AXES = 128
_PIXEL_BYTES = 4


@dataclass(frozen=True, slots=True)
class PackedHorizontalPass:
    """A horizontal pass and what it needs of its source."""

    weights: HorizontalPass
    readable_width_px: int
    """Pixels that a source row must have, since taps come in groups of 4; more than the image's width only for a very
    narrow image, whose rows are then padded with zeros."""


def _frozen(array: NDArray[np.int32]) -> NDArray[np.int32]:
    array.setflags(write=False)
    return array


NO_HORIZONTAL_PASS = HorizontalPass(
    _frozen(np.zeros(0, np.int32)), _frozen(np.zeros((0, 0, 4, 4), np.int32)), _frozen(np.zeros(0, np.int32))
)
NO_VERTICAL_PASS = VerticalPass(
    _frozen(np.zeros(0, np.int32)), _frozen(np.zeros(0, np.int32)), _frozen(np.zeros((0, 0), np.int32))
)


@functools.lru_cache(maxsize=_CACHED_AXES)
def pack_horizontal(
    source_width_px: int, target_width_px: int, rule: WeightRule, stretch: tuple[int, int] | None = None
) -> PackedHorizontalPass:
    """Group the weights by 4 target pixels and 4 taps.

    Windows are shifted to the left where whole groups of taps would reach past the row's end; the taps they gain have
    weight 0. Of a `stretch` of the target (`resample_weights`) offsets count from the first source pixel it needs.
    """
    axis = resample_weights(source_width_px, target_width_px, rule, stretch)
    source_width_px, target_width_px = axis.source_count, axis.target_count
    quad_count = -(-target_width_px // 4)
    tap_group_count = -(-axis.tap_count // 4)
    readable_width_px = max(source_width_px, 4 * tap_group_count)

    counts = np.zeros(quad_count * 4, np.int64)
    counts[:target_width_px] = axis.count
    largest = counts.reshape(quad_count, 4).max(axis=1)
    group_counts = np.maximum(-(-largest // 4), 1).astype(np.int32)

    shift = np.maximum(axis.first + 4 * group_counts[np.arange(target_width_px) // 4] - readable_width_px, 0)
    byte_offsets = np.zeros(quad_count * 4, np.int32)
    byte_offsets[:target_width_px] = (axis.first - shift) * _PIXEL_BYTES
    weights = np.zeros((quad_count, tap_group_count, 4, 4), np.int32)
    target, tap = np.nonzero(np.arange(axis.tap_count)[None, :] < axis.count[:, None])
    shifted_tap = tap + shift[target]
    weights[target // 4, shifted_tap // 4, target % 4, shifted_tap % 4] = axis.weights[target, tap]
    return PackedHorizontalPass(
        HorizontalPass(_frozen(byte_offsets), _frozen(weights), _frozen(group_counts)), readable_width_px
    )


def pack_vertical(
    source_height_px: int, target_height_px: int, rule: WeightRule, stretch: tuple[int, int] | None = None
) -> VerticalPass:
    """Return the weights of the vertical pass, which the kernel takes as they are."""
    axis = resample_weights(source_height_px, target_height_px, rule, stretch)
    return VerticalPass(axis.first, axis.count, axis.weights)
