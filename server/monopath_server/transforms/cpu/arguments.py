"""What the fused kernel is given, as named tuples: the only records that compiled code takes.

Arrays are always read-only where they are tables: writable ones would be another type, and compile the kernel anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AlphaBlend", "ElementWriter", "HorizontalPass", "SourcePixels", "Target", "VerticalPass"]


class SourcePixels(NamedTuple):
    """4-byte pixels in memory."""

    address: int
    pitch_bytes: int
    width_px: int
    """Pixels of a row that may be read; more than the image's width where rows were padded with zeros."""
    height_px: int


class HorizontalPass(NamedTuple):
    """Weights of the horizontal filter in groups of 4 target pixels by 4 taps; empty arrays where no pass is needed."""

    byte_offsets: NDArray[np.int32]
    """[groups * 4]: where each target pixel's window starts in a source row."""
    weights: NDArray[np.int32]
    """[groups, largest number of tap groups, 4 target pixels, 4 taps]."""
    group_counts: NDArray[np.int32]
    """[groups]: how many groups of taps are used."""


class VerticalPass(NamedTuple):
    """Weights of the vertical filter; empty arrays where no pass is needed."""

    first_rows: NDArray[np.int32]
    """[target rows]: first source row."""
    row_counts: NDArray[np.int32]
    """[target rows]: number of source rows."""
    weights: NDArray[np.int32]
    """[target rows, largest count]."""


class AlphaBlend(NamedTuple):
    """What becomes of alpha."""

    is_present: bool
    premultiply: NDArray[np.uint8]
    """[alpha, colour]."""
    tables: NDArray[np.uint8]
    """[white or gray square, alpha, stored colour]: the final colour."""
    square_size_px: int
    gray_parity: int


class Target(NamedTuple):
    """Where the rows of patches go, and their geometry."""

    address: int
    resized_width_px: int
    resized_height_px: int
    grid_h: int
    grid_w: int
    patch_height: int
    patch_width: int
    window_size: int
    """Rows are grouped by square windows of this many patches a side."""
    temporal_copies: int
    """How often each channel of a patch is written, one copy behind the other."""
    is_streamed: bool
    """Whether to store past the caches; needs an address that is a multiple of 16."""


class ElementWriter(NamedTuple):
    """How a pixel becomes an element."""

    kind: int
    """A `WriterKind`."""
    table_address: int
    """Raw elements [3, 256]."""
    itemsize: int
