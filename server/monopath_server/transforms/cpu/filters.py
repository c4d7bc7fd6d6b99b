"""The two resize filters: 22-bit integer weights times 8-bit pixels, summed in int32, rounded and clamped to 8 bits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
from numba.core import cgutils
from numpy.typing import NDArray

from monopath_server.transforms.coefficients import WEIGHT_BITS
from monopath_server.transforms.cpu.arguments import HorizontalPass
from monopath_server.transforms.cpu.memory import emit_prefetch
from monopath_server.transforms.cpu.vector import (
    INT8,
    INT32,
    INT64,
    Builder,
    Value,
    add_bytes,
    address_intrinsic,
    broadcast,
    clamp_to_uint8,
    compiled,
    constant,
    load,
    shuffle,
    splat,
    store,
    vector,
)

__all__ = ["VERTICAL_BYTES", "filter_horizontally", "filter_vertically"]

VERTICAL_BYTES = 32
"""Bytes the vertical filter makes at once; no row may be shorter."""

_HALF = 1 << (WEIGHT_BITS - 1)
_PREFETCH_BYTES = 2048


def _accumulator(builder: Builder, start: Value) -> Value:
    """Make a place for a sum that a loop adds to."""
    place: Value = cgutils.alloca_once_value(builder, start)  # type: ignore[no-untyped-call]
    # The place is made once per function, outside the loops around this code: it must be set here too.
    builder.store(start, place)
    return place


def _counted_loop(builder: Builder, count: Value) -> AbstractContextManager[Any]:
    """Repeat what is emitted within; `index` of the context counts from 0."""
    return cast("AbstractContextManager[Any]", cgutils.for_range(builder, count, intp=INT64))


@address_intrinsic
def _filter_four_pixels(
    builder: Builder, row: Value, byte_offsets: Value, weights: Value, group_count: Value, target: Value
) -> None:
    """Make four neighbouring 4-byte pixels of one row.

    `byte_offsets`: 4 int32, where each pixel's window starts in `row`. `target`: 16 bytes.
    `weights`: int32 [group_count, 4 pixels, 4 taps]. One 16-byte load takes in 4 taps of 4 channels.
    """
    wide = vector(INT32, 16)
    windows = [
        builder.add(row, builder.sext(load(builder, add_bytes(builder, byte_offsets, 4 * pixel), INT32, 4), INT64))
        for pixel in range(4)
    ]
    emit_prefetch(builder, add_bytes(builder, windows[0], _PREFETCH_BYTES))
    sums = [_accumulator(builder, splat(INT32, 16, 0)) for _ in range(4)]
    with _counted_loop(builder, group_count) as loop:
        group_weights = builder.add(weights, builder.mul(loop.index, constant(INT64, 64)))
        for pixel in range(4):
            window = builder.add(windows[pixel], builder.mul(loop.index, constant(INT64, 16)))
            taps = builder.zext(load(builder, window, vector(INT8, 16)), wide)
            weight = load(builder, add_bytes(builder, group_weights, 16 * pixel), vector(INT32, 4), 4)
            weight = shuffle(builder, weight, None, [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4)
            builder.store(builder.add(builder.load(sums[pixel]), builder.mul(taps, weight)), sums[pixel])
    loaded = [builder.load(pixel_sum) for pixel_sum in sums]

    def fold(first: Value, second: Value) -> Value:
        """Add the halves of two pixels' sums: 8 lanes each remain."""
        low = shuffle(builder, first, second, [*range(8), *range(16, 24)])
        high = shuffle(builder, first, second, [*range(8, 16), *range(24, 32)])
        return builder.add(low, high)

    pair, other_pair = fold(loaded[0], loaded[1]), fold(loaded[2], loaded[3])
    even = shuffle(builder, pair, other_pair, [lane for start in (0, 8, 16, 24) for lane in range(start, start + 4)])
    odd = shuffle(builder, pair, other_pair, [lane for start in (4, 12, 20, 28) for lane in range(start, start + 4)])
    total = builder.add(builder.add(even, odd), splat(INT32, 16, _HALF))
    store(builder, clamp_to_uint8(builder, builder.ashr(total, splat(INT32, 16, WEIGHT_BITS)), 16), target)


@address_intrinsic
def _filter_column_bytes(
    builder: Builder, row_addresses: Value, weights: Value, tap_count: Value, offset: Value, target: Value
) -> None:
    """Make `VERTICAL_BYTES` neighbouring bytes of one row out of `tap_count` rows.

    `row_addresses`: int64 [tap_count]. `weights`: int32 [tap_count]. `offset`: where in the rows, in bytes.
    """
    lanes = VERTICAL_BYTES
    total = _accumulator(builder, splat(INT32, lanes, _HALF))
    with _counted_loop(builder, tap_count) as loop:
        row = load(builder, builder.add(row_addresses, builder.mul(loop.index, constant(INT64, 8))), INT64, 8)
        weight = load(builder, builder.add(weights, builder.mul(loop.index, constant(INT64, 4))), INT32, 4)
        taps = builder.zext(load(builder, builder.add(row, offset), vector(INT8, lanes)), vector(INT32, lanes))
        builder.store(builder.add(builder.load(total), builder.mul(taps, broadcast(builder, weight, lanes))), total)
    shifted = builder.ashr(builder.load(total), splat(INT32, lanes, WEIGHT_BITS))
    store(builder, clamp_to_uint8(builder, shifted, lanes), target)


@compiled
def filter_horizontally(row: int, horizontal: HorizontalPass, target: int) -> None:
    """Filter one row of 4-byte pixels, at address `row`, into `target`, four pixels at a time.

    Up to three pixels of zeros are written behind the last one.
    """
    byte_offsets = horizontal.byte_offsets.ctypes.data
    weights = horizontal.weights.ctypes.data
    quad_bytes = horizontal.weights.shape[1] * 64
    for quad in range(horizontal.group_counts.shape[0]):
        _filter_four_pixels(
            row,
            byte_offsets + quad * 16,
            weights + quad * quad_bytes,
            horizontal.group_counts[quad],
            target + quad * 16,
        )


@compiled
def filter_vertically(
    row_addresses: NDArray[np.int64], weights: int, tap_count: int, byte_count: int, target: int
) -> None:
    """Filter `tap_count` rows, whose addresses stand in an array, into one of `byte_count` bytes at `target`.

    `weights`: address of int32 [tap_count]. `byte_count` is at least `VERTICAL_BYTES`.
    """
    addresses = row_addresses.ctypes.data
    offset = 0
    while offset + VERTICAL_BYTES <= byte_count:
        _filter_column_bytes(addresses, weights, tap_count, offset, target + offset)
        offset += VERTICAL_BYTES
    if offset < byte_count:
        # The ragged end: the last whole stretch once more, overlapping what is done.
        offset = byte_count - VERTICAL_BYTES
        _filter_column_bytes(addresses, weights, tap_count, offset, target + offset)
