"""Tables of every value a pixel can become. Made on the host once, so that no transform ever rounds."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from monopath_server.processors.types import (
    Background,
    BackgroundPattern,
    CompositeRounding,
    ElementType,
    Normalization,
)

__all__ = [
    "AlphaTables",
    "ElementBits",
    "alpha_tables",
    "background_values",
    "composite_table",
    "element_table",
    "float32_to_bits",
    "gray_parity",
    "normalize_table",
    "premultiply_table",
    "unpremultiply_table",
]

ElementBits = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]
"""Elements as raw bits: uint8, uint16 (BFLOAT16, FLOAT16) or uint32 (FLOAT32)."""

AlphaTables = NDArray[np.uint8]


@functools.lru_cache(maxsize=64)
def normalize_table(
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    normalization: Normalization = Normalization.NUMPY,
) -> NDArray[np.float32]:
    """Return float32 [3, 256]: the normalised value of each uint8 pixel in each channel. Read-only."""
    normalize = _NORMALIZATIONS[normalization]
    # Extreme constants may overflow to infinity, as they do in the checkpoint.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        table = np.stack([normalize(np.float64(mean[channel]), np.float64(std[channel])) for channel in range(3)])
    table.setflags(write=False)
    return table


def _numpy_values(mean: np.float64, std: np.float64) -> NDArray[np.float32]:
    """The checkpoint's numpy code rounds to float32 after each of three float64 operations."""
    unit = (np.arange(256, dtype=np.float64) / 255.0).astype(np.float32)
    centred = (unit.astype(np.float64) - mean).astype(np.float32)
    return (centred.astype(np.float64) * (1.0 / std)).astype(np.float32)


def _pil_backend_values(mean: np.float64, std: np.float64) -> NDArray[np.float32]:
    """A float64 product, rounded once; then float32 alone."""
    unit = (np.arange(256, dtype=np.float64) * (1.0 / 255.0)).astype(np.float32)
    return (unit - np.float32(mean)) / np.float32(std)


def _torchvision_values(mean: np.float64, std: np.float64) -> NDArray[np.float32]:
    """The rescaling is folded into the constants; float32 alone."""
    scale = np.float32(255.0)
    return (np.arange(256, dtype=np.float32) - np.float32(mean) * scale) / (np.float32(std) * scale)


_NORMALIZATIONS = {
    Normalization.NUMPY: _numpy_values,
    Normalization.PIL_BACKEND: _pil_backend_values,
    Normalization.TORCHVISION: _torchvision_values,
}


@functools.lru_cache(maxsize=64)
def element_table(
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    element_type: ElementType,
    normalization: Normalization = Normalization.NUMPY,
) -> ElementBits:
    """Return the raw bits [3, 256] of each pixel value in each channel, in `element_type`. Read-only.

    UINT8 is the identity: a uint8 feature is the padded pixel, without normalisation.
    """
    if element_type is ElementType.UINT8:
        table: ElementBits = np.repeat(np.arange(256, dtype=np.uint8)[None, :], 3, axis=0)
    else:
        table = float32_to_bits(normalize_table(mean, std, normalization), element_type)
    table.setflags(write=False)
    return table


def float32_to_bits(values: NDArray[np.float32], element_type: ElementType) -> ElementBits:
    """Round float32 values to a float type, to nearest and ties to even, and return their raw bits (a new array).

    Raises:
        ValueError: `element_type` is UINT8, for which there is no such rounding.
    """
    match element_type:
        case ElementType.UINT8:
            raise ValueError("Expected a floating element type, got UINT8")
        case ElementType.FLOAT32:
            return np.array(values, np.float32, order="C").view(np.uint32)
        case ElementType.FLOAT16:
            with np.errstate(over="ignore"):
                return values.astype(np.float16).view(np.uint16)
        case ElementType.BFLOAT16:
            bits = np.ascontiguousarray(values).view(np.uint32)
            rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16
            # Adding could carry a NaN into infinity: keep its upper half and set the quiet bit.
            return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


@functools.cache
def premultiply_table() -> NDArray[np.uint8]:
    """Return uint8 [alpha, colour]: colour * alpha / 255 in Pillow's rounding. Read-only."""
    alpha = np.arange(256, dtype=np.int64)[:, None]
    product = alpha * np.arange(256, dtype=np.int64)[None, :] + 128
    return _read_only(((product + (product >> 8)) >> 8).astype(np.uint8))


@functools.cache
def unpremultiply_table() -> NDArray[np.uint8]:
    """Return uint8 [alpha, premultiplied colour]: Pillow's inverse of `premultiply_table`. Read-only."""
    alpha = np.arange(256, dtype=np.int64)[:, None]
    colour = np.arange(256, dtype=np.int64)[None, :]
    divided = np.minimum(255 * colour // np.maximum(alpha, 1), 255)
    return _read_only(np.where((alpha == 0) | (alpha == 255), colour, divided).astype(np.uint8))


def composite_table(
    background_value: int, rounding: CompositeRounding = CompositeRounding.TRUNCATED
) -> NDArray[np.uint8]:
    """Return uint8 [alpha, colour]: colour over one background value.

    TRUNCATED rounds every operation to float32 and drops the last fraction, as in Kimi-K3; the integer formula that one
    would expect, NEAREST, differs in hundreds of entries.
    """
    if rounding is CompositeRounding.NEAREST:
        opacity = np.arange(256, dtype=np.int64)[:, None]
        total = opacity * np.arange(256, dtype=np.int64)[None, :] + (255 - opacity) * background_value
        return ((total + 127) // 255).astype(np.uint8)
    alpha = (np.arange(256, dtype=np.float32) / np.float32(255.0))[:, None]
    colour = np.arange(256, dtype=np.float32)[None, :]
    return (alpha * colour + (np.float32(1.0) - alpha) * np.float32(background_value)).astype(np.uint8)


def background_values(background: Background) -> tuple[int, int]:
    """Return the values of the white and of the gray squares; they are equal for a plain background."""
    match background.pattern:
        case BackgroundPattern.WHITE:
            return (255, 255)
        case BackgroundPattern.BLACK:
            return (0, 0)
        case BackgroundPattern.GRAY:
            return (128, 128)
        case BackgroundPattern.CHESSBOARD:
            return (background.chessboard_white_value, background.chessboard_gray_value)


def gray_parity(background: Background) -> int:
    """Return which squares are gray: those where (row + column) % 2 is this, row and column counted in squares."""
    return 1 if background.chessboard_square_on_top_left else 0


@functools.lru_cache(maxsize=16)
def alpha_tables(
    background: Background | None, *, is_resized: bool, rounding: CompositeRounding = CompositeRounding.TRUNCATED
) -> AlphaTables:
    """Return uint8 [2, alpha, stored colour]: the final colour over a white (0) and over a gray (1) square. Read-only.

    Args:
        background: None where alpha is dropped after the resize: the colour itself is then final.
        is_resized: Whether stored colours are premultiplied, since they were filtered; the un-premultiply is folded in.
        rounding: How a composite becomes a whole number.
    """
    identity = np.repeat(np.arange(256, dtype=np.uint8)[None, :], 256, axis=0)
    if background is None:
        tables = np.stack([identity, identity])
    else:
        tables = np.stack([composite_table(value, rounding) for value in background_values(background)])
    if is_resized:
        straight = unpremultiply_table().astype(np.intp)
        tables = np.stack([np.take_along_axis(table, straight, axis=1) for table in tables])
    return _read_only(np.ascontiguousarray(tables))


def _read_only(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    array.setflags(write=False)
    return array
