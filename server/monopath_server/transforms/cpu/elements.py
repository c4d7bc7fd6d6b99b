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
    splat,
    store,
    vector,
)

__all__ = [
    "GROUP_PIXELS",
    "RELEASED_PATCH_SIZE",
    "write_bfloat16",
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

_INVERSE_255 = float(np.float32(1) / np.float32(255))
_TWO_OVER_255 = float(np.float32(2) / np.float32(255))


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
    """One FMA, then rounding half up on the bits: among the 256 inputs there is no tie. Mean and std 0.5 only."""
    pixel = builder.sitofp(value, vector(FLOAT, GROUP_PIXELS))
    factor, minus_one = splat(FLOAT, GROUP_PIXELS, _TWO_OVER_255), splat(FLOAT, GROUP_PIXELS, -1.0)
    scaled = fused_multiply_add(builder, pixel, factor, minus_one, GROUP_PIXELS)
    bits = builder.add(builder.bitcast(scaled, vector(INT32, GROUP_PIXELS)), splat(INT32, GROUP_PIXELS, 0x8000))
    return builder.trunc(builder.lshr(bits, splat(INT32, GROUP_PIXELS, 16)), vector(INT16, GROUP_PIXELS))


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
