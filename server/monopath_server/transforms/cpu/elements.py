"""One line of a 14-pixel patch: 14 pixels in, 3 x 14 elements out."""

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
    "VECTOR_PATCH_SIZE",
    "write_line_bfloat16",
    "write_line_by_table_8",
    "write_line_by_table_16",
    "write_line_by_table_32",
    "write_line_float32",
    "write_line_uint8",
]

VECTOR_PATCH_SIZE = 14
"""The patch size that has vector code; others take a plain loop."""

_LANES = 8
# Two groups of 8 lanes, the second one overlapping the first, cover 14 pixels: nothing outside of them is touched.
_GROUP_STARTS = (0, VECTOR_PATCH_SIZE - _LANES)
_CHANNEL_ELEMENTS = VECTOR_PATCH_SIZE * VECTOR_PATCH_SIZE
_INVERSE_255 = float(np.float32(1) / np.float32(255))
_TWO_OVER_255 = float(np.float32(2) / np.float32(255))


def _emit_line(builder: Builder, pixels: Value, target: Value, itemsize: int, emit_element: object) -> None:
    for start in _GROUP_STARTS:
        loaded = load(builder, add_bytes(builder, pixels, start * 4), vector(INT32, _LANES))
        for channel in range(3):
            shifted = builder.lshr(loaded, splat(INT32, _LANES, 8 * channel))
            value = builder.and_(shifted, splat(INT32, _LANES, 255))
            element = emit_element(builder, value)  # type: ignore[operator]
            store(builder, element, add_bytes(builder, target, (channel * _CHANNEL_ELEMENTS + start) * itemsize))


def _emit_float32(builder: Builder, value: Value) -> Value:
    """value / 255 rounded to float32 (a product and its correction), then 2 * x - 1: mean and std 0.5 only."""
    pixel = builder.sitofp(value, vector(FLOAT, _LANES))
    inverse = splat(FLOAT, _LANES, _INVERSE_255)
    quotient = builder.fmul(pixel, inverse)
    remainder = fused_multiply_add(builder, quotient, splat(FLOAT, _LANES, -255.0), pixel, _LANES)
    exact = fused_multiply_add(builder, remainder, inverse, quotient, _LANES)
    return fused_multiply_add(builder, exact, splat(FLOAT, _LANES, 2.0), splat(FLOAT, _LANES, -1.0), _LANES)


def _emit_bfloat16(builder: Builder, value: Value) -> Value:
    """One FMA, then rounding half up on the bits: among the 256 inputs there is no tie. Mean and std 0.5 only."""
    pixel = builder.sitofp(value, vector(FLOAT, _LANES))
    scaled = fused_multiply_add(builder, pixel, splat(FLOAT, _LANES, _TWO_OVER_255), splat(FLOAT, _LANES, -1.0), _LANES)
    bits = builder.add(builder.bitcast(scaled, vector(INT32, _LANES)), splat(INT32, _LANES, 0x8000))
    return builder.trunc(builder.lshr(bits, splat(INT32, _LANES, 16)), vector(INT16, _LANES))


def _emit_uint8(builder: Builder, value: Value) -> Value:
    return builder.trunc(value, vector(INT8, _LANES))


def _emit_table_line(builder: Builder, pixels: Value, table: Value, target: Value, element: object) -> None:
    itemsize = element.width // 8  # type: ignore[attr-defined]
    for channel in range(3):
        channel_table = add_bytes(builder, table, channel * 256 * itemsize)
        for pixel in range(VECTOR_PATCH_SIZE):
            value = builder.zext(load(builder, add_bytes(builder, pixels, pixel * 4 + channel), INT8), INT64)
            entry = builder.add(channel_table, builder.mul(value, constant(INT64, itemsize)))
            looked_up = load(builder, entry, element, itemsize)
            store(builder, looked_up, add_bytes(builder, target, (channel * _CHANNEL_ELEMENTS + pixel) * itemsize))


@address_intrinsic
def write_line_float32(builder: Builder, pixels: Value, target: Value) -> None:
    """Write FLOAT32 elements in closed form."""
    _emit_line(builder, pixels, target, 4, _emit_float32)


@address_intrinsic
def write_line_bfloat16(builder: Builder, pixels: Value, target: Value) -> None:
    """Write BFLOAT16 elements in closed form."""
    _emit_line(builder, pixels, target, 2, _emit_bfloat16)


@address_intrinsic
def write_line_uint8(builder: Builder, pixels: Value, target: Value) -> None:
    """Write UINT8 elements: the pixels themselves."""
    _emit_line(builder, pixels, target, 1, _emit_uint8)


@address_intrinsic
def write_line_by_table_8(builder: Builder, pixels: Value, table: Value, target: Value) -> None:
    """Write elements of one byte from a table [3, 256]."""
    _emit_table_line(builder, pixels, table, target, INT8)


@address_intrinsic
def write_line_by_table_16(builder: Builder, pixels: Value, table: Value, target: Value) -> None:
    """Write elements of two bytes from a table [3, 256]."""
    _emit_table_line(builder, pixels, table, target, INT16)


@address_intrinsic
def write_line_by_table_32(builder: Builder, pixels: Value, table: Value, target: Value) -> None:
    """Write elements of four bytes from a table [3, 256]."""
    _emit_table_line(builder, pixels, table, target, INT32)
