"""Where features differ from the reference's, to the byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monopath import FeatureArray, ImagePlan

__all__ = ["Difference", "Place", "byte_difference", "geometry_difference"]


@dataclass(frozen=True, slots=True)
class Place:
    """One byte of features, and the element that it belongs to."""

    offset_bytes: int
    row: int
    channel: int
    y: int
    x: int
    """Row, channel, line and column of the element: a place in [rows, channels, height, width]."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One image whose features are not the reference's."""

    image: str
    what: str
    """`bytes`, a field of the plan, `refused` (by the path alone) or `not refused` (by the path alone)."""
    expected: str
    found: str
    byte_count: int
    """Bytes without an equal counterpart."""
    place: Place | None = None
    """The first byte that differs, where bytes do."""

    def as_json(self) -> dict[str, object]:
        """Return the object under `differences`."""
        place = self.place
        names = ("offset_bytes", "row", "channel", "y", "x")
        return {
            "image": self.image,
            "what": self.what,
            "expected": self.expected,
            "found": self.found,
            "byte_count": self.byte_count,
            **{name: None if place is None else getattr(place, name) for name in names},
        }

    def __str__(self) -> str:
        place = self.place
        if place is None:
            return f"{self.image}: {self.what}: expected {self.expected}, got {self.found}"
        return (
            f"{self.image}: expected {self.expected}, got {self.found} at byte {place.offset_bytes} (row {place.row}, "
            f"channel {place.channel}, y {place.y}, x {place.x}), the first of {self.byte_count} that differ"
        )


def byte_difference(image: str, expected: NDArray[Any], found: FeatureArray) -> Difference | None:
    """Compare the bytes of two tensors of one shape and element size. Returns None where they are equal."""
    expected_bytes = expected.reshape(-1).view(np.uint8)
    found_bytes = found.reshape(-1).view(np.uint8)
    if np.array_equal(expected_bytes, found_bytes):
        return None
    differs = expected_bytes != found_bytes
    offset_bytes = int(differs.argmax())
    row, channel, *_, y, x = (int(at) for at in np.unravel_index(offset_bytes // expected.itemsize, expected.shape))
    return Difference(
        image,
        "bytes",
        f"0x{expected_bytes[offset_bytes]:02x}",
        f"0x{found_bytes[offset_bytes]:02x}",
        int(np.count_nonzero(differs)),
        Place(offset_bytes, row, channel, y, x),
    )


def geometry_difference(
    image: str, expected: dict[str, tuple[int, ...]], plan: ImagePlan, byte_count: int
) -> Difference | None:
    """Compare the fields of a plan, as named by the contract. Returns None where they are equal."""
    grid, tiles, crop = plan.grid_thw, plan.tile_grid, plan.crop
    found: dict[str, tuple[int, ...]] = {
        "original_size": (plan.original_size.width_px, plan.original_size.height_px),
        "resized_size": (plan.resized_size.width_px, plan.resized_size.height_px),
        "padding": (plan.padding.right_px, plan.padding.bottom_px),
        "crop": () if crop is None else (crop.left_px, crop.top_px, crop.width_px, crop.height_px),
        "grid_thw": () if grid is None else (grid.t, grid.h, grid.w),
        "tile_grid": () if tiles is None else (tiles.columns, tiles.rows, int(tiles.has_thumbnail)),
        "token_count": (plan.token_count,),
        "shape": plan.shape,
        "size_bytes": (plan.size_bytes,),
    }
    for name, value in expected.items():
        if found[name] != value:
            return Difference(image, name, _text(value), _text(found[name]), byte_count)
    return None


def _text(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers)) or "none"
