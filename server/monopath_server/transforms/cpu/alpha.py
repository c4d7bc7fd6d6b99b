"""Alpha in compiled code: premultiply before the filters, composite after them. Look-ups only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monopath_server.transforms.cpu.arguments import AlphaBlend, SourcePixels
from monopath_server.transforms.cpu.memory import load_uint32, store_uint32
from monopath_server.transforms.cpu.vector import compiled

__all__ = ["composite_row", "is_opaque", "premultiply_row"]


@compiled
def is_opaque(source: SourcePixels) -> bool:
    """Tell whether every alpha of the source is 255."""
    for y in range(source.height_px):
        row = source.address + y * source.pitch_bytes
        common = 0xFF000000
        for x in range(source.width_px):
            common &= load_uint32(row + x * 4)
        if common != 0xFF000000:
            return False
    return True


@compiled
def premultiply_row(source: int, target: int, table: NDArray[np.uint8], width_px: int) -> None:
    """Premultiply one row of RGBA pixels, from one address to another. `table`: [alpha, colour]."""
    for x in range(width_px):
        pixel = load_uint32(source + x * 4)
        alpha = pixel >> 24
        if alpha == 0:
            pixel = 0
        elif alpha != 255:
            pixel = _look_up(table[alpha], pixel) | (alpha << 24)
        store_uint32(target + x * 4, pixel)


@compiled
def composite_row(row: int, y: int, width_px: int, alpha: AlphaBlend) -> None:
    """Replace one row of RGBA pixels, at address `row`, by what is seen of it over the background."""
    for x in range(width_px):
        pixel = load_uint32(row + x * 4)
        opacity = pixel >> 24
        if opacity != 255:
            parity = (y // alpha.square_size_px + x // alpha.square_size_px) & 1
            square = 1 if parity == alpha.gray_parity else 0
            store_uint32(row + x * 4, _look_up(alpha.tables[square, opacity], pixel))


@compiled
def _look_up(table: NDArray[np.uint8], pixel: int) -> int:
    """Look up the three colours of a pixel in one table; the result's alpha is 0."""
    red = np.int64(table[pixel & 255])
    green = np.int64(table[(pixel >> 8) & 255])
    blue = np.int64(table[(pixel >> 16) & 255])
    return int(red | (green << 8) | (blue << 16))
