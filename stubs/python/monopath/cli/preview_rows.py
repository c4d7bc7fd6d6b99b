"""From the rows that a path returned back to pixels: exactly, or not at all. Numpy only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monopath import FeatureArray

__all__ = ["Denormalizer", "Pixels", "unpatchify"]

Pixels = npt.NDArray[np.uint8]
"""uint8 [height, width, 3], in RGB."""

_ROWS_AT_ONCE = 4096
"""Bounds the memory for intermediate values."""


def unpatchify(rows: Pixels, grid_rows: int, grid_columns: int, window_size: int = 1) -> Pixels:
    """Put rows back into the picture that they were cut from.

    Args:
        rows: uint8 [patches, channels, height, width of a patch], or with frames behind the channels, all alike.
        grid_rows: patches down.
        grid_columns: patches across.
        window_size: rows are grouped by square windows of this many patches a side; 1: raster order.

    Returns:
        uint8 [grid rows * patch height, grid columns * patch width, channels], a copy.

    Raises:
        ValueError: not as many rows as the grid has patches, no whole windows, or frames that differ.
    """
    if rows.ndim == 5:
        if (rows != rows[:, :, :1]).any():
            raise ValueError("Expected the frames of a still image to be alike, got others")
        rows = rows[:, :, 0]
    if rows.ndim != 4 or len(rows) != grid_rows * grid_columns:
        raise ValueError(
            f"Expected rows of shape [{grid_rows * grid_columns}, channels, height, width], got {list(rows.shape)}"
        )
    if grid_rows % window_size or grid_columns % window_size:
        raise ValueError(f"Expected whole windows of {window_size} patches, got {grid_rows} x {grid_columns}")
    _, channel_count, height_px, width_px = rows.shape
    windows = rows.reshape(
        grid_rows // window_size,
        grid_columns // window_size,
        window_size,
        window_size,
        channel_count,
        height_px,
        width_px,
    )
    picture = windows.transpose(0, 2, 5, 1, 3, 6, 4)
    # A copy in any case: rows may be in memory that is somebody else's soon.
    return np.array(picture.reshape(grid_rows * height_px, grid_columns * width_px, channel_count), order="C")


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
        """Return the pixel values of `rows` in the same shape, [patches, 3, height, width], or with frames behind 3.

        Raises ValueError for rows of another type or shape, and for an element that no pixel value has.
        """
        if rows.dtype != self._data_type or rows.ndim not in (4, 5) or rows.shape[1] != len(self._values):
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
