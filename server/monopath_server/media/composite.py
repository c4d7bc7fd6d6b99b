"""Composites an image that is not resized yet over its background, on the host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monopath_server.processors.types import Background, CompositeRounding
from monopath_server.transforms.tables import alpha_tables, gray_parity

__all__ = ["composite_pixels"]

# Bounds the memory of the index arrays, which take eight bytes where a pixel takes one.
_ROWS_AT_ONCE = 64


def composite_pixels(
    pixels: NDArray[np.uint8], background: Background, rounding: CompositeRounding
) -> NDArray[np.uint8]:
    """Return `pixels` (uint8 [height, width, 4], RGBA) over `background`, as a new array with an alpha of 255."""
    tables = alpha_tables(background, is_resized=False, rounding=rounding)
    square_size = background.chessboard_square_size
    height_px, width_px = pixels.shape[:2]
    column = np.arange(width_px) // square_size
    result = np.empty((height_px, width_px, 4), np.uint8)
    result[..., 3] = 255
    for top in range(0, height_px, _ROWS_AT_ONCE):
        strip = pixels[top : top + _ROWS_AT_ONCE]
        row = np.arange(top, top + len(strip)) // square_size
        is_gray = (row[:, None] + column[None, :]) % 2 == gray_parity(background)
        result[top : top + len(strip), :, :3] = tables[
            is_gray.astype(np.intp)[..., None], strip[..., 3:4], strip[..., :3]
        ]
    return result
