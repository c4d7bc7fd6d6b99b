"""Resampling of 8-bit pixels as Pillow and torchvision define it: integer weights, and a rounding for each pass."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["filter_weights", "resample_pixels"]

_MOST_BITS = 22


def _cubic(distance: float) -> float:
    """Keys' cubic kernel with a = -0.5."""
    a = -0.5
    distance = abs(distance)
    if distance < 1.0:
        return ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1
    if distance < 2.0:
        return (((distance - 5) * distance + 8) * distance - 4) * a
    return 0.0


def _triangle(distance: float) -> float:
    return max(0.0, 1.0 - abs(distance))


@lru_cache(maxsize=256)
def filter_weights(
    source_count: int, target_count: int, is_int16: bool = False, is_bilinear: bool = False
) -> tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]:
    """The fraction bits of the integer weights, and for each target position the first source position and its weights.

    Pillow has 22 bits. With `is_int16`, torchvision's way, the axis has as many as let its largest weight be an int16.
    """
    scale = source_count / target_count
    filter_scale = max(scale, 1.0)
    support = (1.0 if is_bilinear else 2.0) * filter_scale
    weigh = _triangle if is_bilinear else _cubic
    inverse_scale = 1.0 / filter_scale
    positions = []
    for target in range(target_count):
        center = (target + 0.5) * scale
        first = max(0, int(center - support + 0.5))
        end = min(source_count, int(center + support + 0.5))
        weights = [weigh((tap + first - center + 0.5) * inverse_scale) for tap in range(end - first)]
        # A plain loop: `sum` of Python 3.12 compensates rounding errors, which Pillow does not.
        total = 0.0
        for weight in weights:
            total += weight
        if total != 0.0:
            weights = [weight / total for weight in weights]
        positions.append((first, weights))
    bits = _MOST_BITS
    if is_int16:
        largest = max(max(weights) for _, weights in positions)
        bits = 0
        while bits < _MOST_BITS and int(0.5 + largest * 2.0 ** (bits + 1)) < 2**15:
            bits += 1
    return bits, tuple(
        (first, tuple(int(weight * 2.0**bits + (-0.5 if weight < 0 else 0.5)) for weight in weights))
        for first, weights in positions
    )


def _filter_lines(lines: NDArray[np.uint8], target_count: int, is_int16: bool, is_bilinear: bool) -> NDArray[np.uint8]:
    """Filters along the first axis of `lines`, rounding each result to uint8."""
    result = np.empty((target_count, *lines.shape[1:]), np.uint8)
    bits, positions = filter_weights(lines.shape[0], target_count, is_int16, is_bilinear)
    for target, (first, weights) in enumerate(positions):
        total = np.full(lines.shape[1:], 1 << (bits - 1), np.int64)
        for tap, weight in enumerate(weights):
            total += weight * lines[first + tap].astype(np.int64)
        result[target] = np.clip(total >> bits, 0, 255)
    return result


def _filter_planes(
    pixels: NDArray[np.uint8],
    new_width_px: int,
    new_height_px: int,
    vertical_first: bool,
    is_int16: bool,
    is_bilinear: bool = False,
) -> NDArray[np.uint8]:
    """Filters each axis whose size changes, once; `pixels` is [height, width, channels]."""
    for axis in (0, 1) if vertical_first else (1, 0):
        target_count = new_height_px if axis == 0 else new_width_px
        if pixels.shape[axis] != target_count:
            lines = np.ascontiguousarray(np.moveaxis(pixels, axis, 0))
            pixels = np.moveaxis(_filter_lines(lines, target_count, is_int16, is_bilinear), 0, axis)
    return np.ascontiguousarray(pixels)


def resample_pixels(
    pixels: NDArray[np.uint8],
    target: tuple[int, int],
    *,
    has_alpha: bool,
    vertical_first: bool,
    is_int16: bool = False,
    is_bilinear: bool = False,
) -> NDArray[np.uint8]:
    """Resizes uint8 pixels [height, width, channels] to `target` (width, height).

    With `has_alpha` the last channel is alpha: colours are premultiplied before the filter and divided after it.
    An image that already has its size is returned as it is, with the colours under its transparent pixels.
    """
    new_width_px, new_height_px = target
    if pixels.shape[:2] == (new_height_px, new_width_px):
        return pixels
    if not has_alpha:
        return _filter_planes(pixels, new_width_px, new_height_px, vertical_first, is_int16, is_bilinear)
    alpha = pixels[..., -1:].astype(np.int64)
    product = pixels[..., :-1] * alpha + 128
    premultiplied = ((product + (product >> 8)) >> 8).astype(np.uint8)
    planes = np.concatenate([premultiplied, pixels[..., -1:]], axis=-1)
    filtered = _filter_planes(planes, new_width_px, new_height_px, vertical_first, is_int16)
    color, alpha = filtered[..., :-1].astype(np.int64), filtered[..., -1:].astype(np.int64)
    divided = np.minimum(255 * color // np.maximum(alpha, 1), 255)
    straight = np.where((alpha == 0) | (alpha == 255), color, divided).astype(np.uint8)
    return np.concatenate([straight, filtered[..., -1:]], axis=-1)
