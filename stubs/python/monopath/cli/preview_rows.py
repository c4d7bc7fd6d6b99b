"""From the rows that a path returned back to pixels: exactly, or not at all. Numpy only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monopath import FeatureArray, GridThw

__all__ = ["Denormalizer", "Pixels", "unpatchify"]

Pixels = npt.NDArray[np.uint8]
"""uint8 [height, width, 3], in RGB."""

_ROWS_AT_ONCE = 4096
"""Bounds the memory for intermediate values."""


def unpatchify(rows: Pixels, grid_thw: GridThw) -> Pixels:
    """Put rows back into the padded picture that they were cut from.

    Args:
        rows: uint8 [patches, channels, patch height, patch width], in raster order.
        grid_thw: the patch grid, of one frame.

    Returns:
        uint8 [grid h * patch height, grid w * patch width, channels].

    Raises:
        ValueError: more than one frame, or not as many rows as the grid has patches.
    """
    if grid_thw.t != 1:
        raise ValueError(f"Expected a grid of one frame, got {grid_thw.t}")
    if rows.ndim != 4 or len(rows) != grid_thw.h * grid_thw.w:
        raise ValueError(
            f"Expected rows of shape [{grid_thw.h * grid_thw.w}, channels, height, width], got {list(rows.shape)}"
        )
    _, channel_count, patch_height_px, patch_width_px = rows.shape
    patches = rows.reshape(grid_thw.h, grid_thw.w, channel_count, patch_height_px, patch_width_px)
    picture = patches.transpose(0, 3, 1, 4, 2)
    return picture.reshape(grid_thw.h * patch_height_px, grid_thw.w * patch_width_px, channel_count)


class Denormalizer:
    """Finds the pixel value that each element was made from, and proves it: its element has the same bits."""

    def __init__(self, normalize_table: npt.NDArray[np.float32], data_type: np.dtype[np.generic]) -> None:
        """Prepare for rows of one float type.

        Args:
            normalize_table: float32 [3, 256], the value of each channel and pixel value.
            data_type: float32, bfloat16 (`ml_dtypes`) or float16.

        Raises:
            ValueError: two pixel values of a channel have the same element, so that rows do not say which it was.
        """
        elements = normalize_table.astype(data_type)
        self._data_type = data_type
        self._bits = elements.view(f"u{data_type.itemsize}")
        # float32 holds every element of every type, and can be searched; its order is that of the pixel values.
        self._values = elements.astype(np.float32)
        ascending = np.diff(self._values, axis=1) > 0
        if not ascending.all():
            shared_count = int(np.count_nonzero(~ascending))
            raise ValueError(
                f"Expected an element of its own for each pixel value, got {shared_count} of 765 neighbours that share "
                f"one in {data_type}"
            )

    def pixel_rows(self, rows: FeatureArray) -> Pixels:
        """Return the pixel values of `rows` in the same shape, [patches, 3, patch height, patch width].

        Raises ValueError for rows of another type or shape, and for an element that no pixel value has.
        """
        if rows.dtype != self._data_type or rows.ndim != 4 or rows.shape[1] != len(self._values):
            raise ValueError(
                f"Expected rows of {self._data_type} [patches, 3, height, width], got {rows.dtype} {list(rows.shape)}"
            )
        pixels = np.empty(rows.shape, np.uint8)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            for channel, (values, bits) in enumerate(zip(self._values, self._bits, strict=True)):
                elements = np.ascontiguousarray(rows[part, channel])
                # NaN is sorted behind everything.
                found = np.minimum(np.searchsorted(values, elements.astype(np.float32)), len(values) - 1)
                wrong_count = int(np.count_nonzero(bits[found] != elements.view(bits.dtype)))
                if wrong_count:
                    raise ValueError(
                        f"Expected elements that a pixel value has, got {wrong_count} others in channel {channel}"
                    )
                pixels[part, channel] = found
        return pixels
