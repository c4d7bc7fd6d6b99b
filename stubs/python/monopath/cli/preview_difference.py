"""What two pictures of one image differ in, as a picture and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monopath.cli.preview_picture import Fit, scaled
from monopath.cli.preview_rows import Pixels

__all__ = ["Difference", "difference"]


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The distance of each value of two pictures of one size."""

    distances: Pixels
    """uint8 [height, width, 3]."""
    value_count: int
    """Values that differ, of three a pixel."""
    pixel_count: int
    """Pixels with such a value."""
    largest: int
    """The largest distance, of 255."""

    @property
    def factor(self) -> int:
        """By how much distances are amplified to be seen: the largest one is then close to 255."""
        return 255 // max(1, self.largest)

    @property
    def words(self) -> str:
        """The same in words."""
        if not self.value_count:
            return f"none of {self.distances.size:,} values differs"
        share = self.value_count / self.distances.size
        percent = "less than 0.1 %" if share < 0.001 else f"{share:.1%}".replace("%", " %")
        return (
            f"{self.value_count:,} of {self.distances.size:,} values differ ({percent}), in {self.pixel_count:,} "
            f"pixels; by {self.largest} at most"
        )

    def drawn(self, how: Fit) -> Pixels:
        """Return the amplified distances at the size of drawing.

        Where pixels fall together the largest one is shown, since a mean would hide a single one.
        """
        amplified = self.distances * np.uint8(self.factor)
        if how.scale >= 1:
            return scaled(amplified, how)
        for axis, (source_px, drawn_px) in enumerate(zip(how.source_px[::-1], how.drawn_px[::-1], strict=True)):
            begins = np.arange(drawn_px, dtype=np.int64) * source_px // drawn_px
            amplified = np.maximum.reduceat(amplified, begins, axis=axis)
        return amplified


def difference(first: Pixels, second: Pixels) -> Difference:
    """Compare two pictures [height, width, 3]. Raises ValueError for different sizes."""
    if first.shape != second.shape:
        raise ValueError(f"Expected pictures of one size, got {list(first.shape)} and {list(second.shape)}")
    distances: npt.NDArray[np.uint8] = np.maximum(first, second) - np.minimum(first, second)
    return Difference(
        distances=distances,
        value_count=int(np.count_nonzero(distances)),
        pixel_count=int(np.count_nonzero(distances.any(axis=2))),
        largest=int(distances.max()),
    )
