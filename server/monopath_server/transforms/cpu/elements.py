"""Pieces of a line of a patch: neighbouring pixels in, three channels of elements out.

`channel_bytes` is how far the elements of one channel are from those of the next.
"""

from __future__ import annotations

import numpy as np

from monopath_server.transforms.cpu.vector import (
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    Builder,
    Value,
    add_bytes,
    address_intrinsic,
    constant,
    fused_multiply_add,
    load,
    shuffle,
    splat,
    store,
    vector,
)

__all__ = [
    "GROUP_PIXELS",
    "RELEASED_PATCH_SIZE",
    "write_bfloat16",
    "write_bfloat16_line",
    "write_by_table_8",
    "write_by_table_16",
    "write_by_table_32",
    "write_float32",
    "write_line_by_table_8",
    "write_line_by_table_16",
    "write_line_by_table_32",
    "write_uint8",
]

GROUP_PIXELS = 8
"""Pixels that are written at once. A line that is no multiple of it ends with a group that overlaps the one before."""

RELEASED_PATCH_SIZE = 14
"""Most checkpoints have it: its lines of looked-up elements are written in one piece."""

LINE_PIXELS = 16
"""Pixels of a line whose next line is written after it: two more than a released patch has, whose elements go to where
the first two of the next line belong."""

_WORDS = vector(INT32, GROUP_PIXELS)
_HALVES = vector(INT16, 2 * GROUP_PIXELS)
_BYTES = vector(INT8, 4 * GROUP_PIXELS)
_INVERSE_255 = float(np.float32(1) / np.float32(255))
# What 2 * x / 255 - 1 is multiplied by, so that cutting its bits off at 16 is rounding them (`_emit_bfloat16`).
_ROUNDING = 257 / 256
_BFLOAT16_FACTOR = float(np.float32(_ROUNDING * 2 / 255))
_BFLOAT16_OFFSET = -_ROUNDING


def _emit_group(builder: Builder, pixels: Value, target: Value, channel_bytes: Value, emit_element: object) -> None:
    loaded = load(builder, pixels, vector(INT32, GROUP_PIXELS))
    for channel in range(3):
        shifted = builder.lshr(loaded, splat(INT32, GROUP_PIXELS, 8 * channel))
        value = builder.and_(shifted, splat(INT32, GROUP_PIXELS, 255))
        element = emit_element(builder, value)  # type: ignore[operator]
        store(builder, element, target)
        target = builder.add(target, channel_bytes)


def _emit_float32(builder: Builder, value: Value) -> Value:
    """value / 255 rounded to float32 (a product and its correction), then 2 * x - 1: mean and std 0.5 only."""
    pixel = builder.sitofp(value, vector(FLOAT, GROUP_PIXELS))
    inverse = splat(FLOAT, GROUP_PIXELS, _INVERSE_255)
    quotient = builder.fmul(pixel, inverse)
    remainder = fused_multiply_add(builder, quotient, splat(FLOAT, GROUP_PIXELS, -255.0), pixel, GROUP_PIXELS)
    exact = fused_multiply_add(builder, remainder, inverse, quotient, GROUP_PIXELS)
    two, minus_one = splat(FLOAT, GROUP_PIXELS, 2.0), splat(FLOAT, GROUP_PIXELS, -1.0)
    return fused_multiply_add(builder, exact, two, minus_one, GROUP_PIXELS)


def _emit_bfloat16(builder: Builder, value: Value) -> Value:
    """One FMA, of whose bits the upper half is the element. Mean and std 0.5 only.

    Each of the 256 exact values is m * 2**-k with 1/2 < m < 1 (or it is 1), and, since 255 is 256 - 1, in units of its
    last place in bfloat16 it is a whole number and m: all of them are rounded away from zero. An addition of m units,
    which 257/256 as a factor is, takes each to its rounded value and not to the next.
    """
    bits = _bfloat16_bits(builder, value)
    return builder.trunc(builder.lshr(bits, splat(INT32, GROUP_PIXELS, 16)), vector(INT16, GROUP_PIXELS))


def _bfloat16_bits(builder: Builder, value: Value) -> Value:
    pixel = builder.sitofp(value, vector(FLOAT, GROUP_PIXELS))
    factor, offset = splat(FLOAT, GROUP_PIXELS, _BFLOAT16_FACTOR), splat(FLOAT, GROUP_PIXELS, _BFLOAT16_OFFSET)
    return builder.bitcast(fused_multiply_add(builder, pixel, factor, offset, GROUP_PIXELS), _WORDS)


def _emit_bfloat16_line(builder: Builder, pixels: Value, target: Value, channel_bytes: Value) -> None:
    """Even and odd pixels apart, so that the upper halves of both, taken in turn, are the line."""
    left = load(builder, pixels, _WORDS)
    right = load(builder, add_bytes(builder, pixels, 4 * GROUP_PIXELS), _WORDS)
    parities = [
        builder.bitcast(shuffle(builder, left, right, list(range(first, LINE_PIXELS, 2))), _BYTES) for first in (0, 1)
    ]
    upper_halves = [lane for half in range(1, LINE_PIXELS, 2) for lane in (half, LINE_PIXELS + half)]
    for channel in range(3):
        even, odd = (
            builder.bitcast(_bfloat16_bits(builder, _channel_of(builder, pixel, channel)), _HALVES)
            for pixel in parities
        )
        store(builder, shuffle(builder, even, odd, upper_halves), target)
        target = builder.add(target, channel_bytes)


def _channel_of(builder: Builder, pixels: Value, channel: int) -> Value:
    """Return one byte of each pixel as a number."""
    zeros, zero = splat(INT8, 4 * GROUP_PIXELS, 0), 4 * GROUP_PIXELS
    lanes = [lane for pixel in range(0, zero, 4) for lane in (pixel + channel, zero, zero, zero)]
    return builder.bitcast(shuffle(builder, pixels, zeros, lanes), _WORDS)


def _emit_uint8(builder: Builder, value: Value) -> Value:
    return builder.trunc(value, vector(INT8, GROUP_PIXELS))


def _emit_by_table(
    builder: Builder,
    pixels: Value,
    table: Value,
    target: Value,
    channel_bytes: Value,
    element: object,
    pixel_count: int = GROUP_PIXELS,
) -> None:
    itemsize = element.width // 8  # type: ignore[attr-defined]
    for channel in range(3):
        channel_table = add_bytes(builder, table, channel * 256 * itemsize)
        for pixel in range(pixel_count):
            value = builder.zext(load(builder, add_bytes(builder, pixels, pixel * 4 + channel), INT8), INT64)
            entry = builder.add(channel_table, builder.mul(value, constant(INT64, itemsize)))
            looked_up = load(builder, entry, element, itemsize)
            store(builder, looked_up, add_bytes(builder, target, pixel * itemsize))
        target = builder.add(target, channel_bytes)


@address_intrinsic
def write_float32(builder: Builder, pixels: Value, target: Value, channel_bytes: Value) -> None:
    """Write FLOAT32 elements in closed form."""
    _emit_group(builder, pixels, target, channel_bytes, _emit_float32)


@address_intrinsic
def write_bfloat16(builder: Builder, pixels: Value, target: Value, channel_bytes: Value) -> None:
    """Write BFLOAT16 elements in closed form."""
    _emit_group(builder, pixels, target, channel_bytes, _emit_bfloat16)


@address_intrinsic
def write_bfloat16_line(builder: Builder, pixels: Value, target: Value, channel_bytes: Value) -> None:
    """Write `LINE_PIXELS` BFLOAT16 elements of each channel in closed form."""
    _emit_bfloat16_line(builder, pixels, target, channel_bytes)


@address_intrinsic
def write_uint8(builder: Builder, pixels: Value, target: Value, channel_bytes: Value) -> None:
    """Write UINT8 elements: the pixels themselves."""
    _emit_group(builder, pixels, target, channel_bytes, _emit_uint8)


@address_intrinsic
def write_by_table_8(builder: Builder, pixels: Value, table: Value, target: Value, channel_bytes: Value) -> None:
    """Write elements of one byte from a table [3, 256]."""
    _emit_by_table(builder, pixels, table, target, channel_bytes, INT8)


@address_intrinsic
def write_by_table_16(builder: Builder, pixels: Value, table: Value, target: Value, channel_bytes: Value) -> None:
    """Write elements of two bytes from a table [3, 256]."""
    _emit_by_table(builder, pixels, table, target, channel_bytes, INT16)


@address_intrinsic
def write_by_table_32(builder: Builder, pixels: Value, table: Value, target: Value, channel_bytes: Value) -> None:
    """Write elements of four bytes from a table [3, 256]."""
    _emit_by_table(builder, pixels, table, target, channel_bytes, INT32)


@address_intrinsic
def write_line_by_table_8(builder: Builder, pixels: Value, table: Value, target: Value, channel_bytes: Value) -> None:
    """As `write_by_table_8`, a whole line of a released patch."""
    _emit_by_table(builder, pixels, table, target, channel_bytes, INT8, RELEASED_PATCH_SIZE)


@address_intrinsic
def write_line_by_table_16(builder: Builder, pixels: Value, table: Value, target: Value, channel_bytes: Value) -> None:
    """As `write_by_table_16`, a whole line of a released patch."""
    _emit_by_table(builder, pixels, table, target, channel_bytes, INT16, RELEASED_PATCH_SIZE)


@address_intrinsic
def write_line_by_table_32(builder: Builder, pixels: Value, table: Value, target: Value, channel_bytes: Value) -> None:
    """As `write_by_table_32`, a whole line of a released patch."""
    _emit_by_table(builder, pixels, table, target, channel_bytes, INT32, RELEASED_PATCH_SIZE)
