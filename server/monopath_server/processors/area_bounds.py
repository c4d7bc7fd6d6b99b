"""What the families have in common that bound an image's area: the fields, and smart_resize itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from monopath_server.faults import ConfigViolation
from monopath_server.processors.family import CanonicalForm
from monopath_server.processors.ranges import outside
from monopath_server.processors.types import Size
from monopath_server.processors.windowed import WindowedConfig

__all__ = ["MAX_AREA_PX", "AreaBoundedConfig", "smart_resized"]

MAX_AREA_PX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaBoundedConfig(WindowedConfig):
    """A config of windows whose images are resized to an area within bounds."""

    min_pixels: int
    """Smallest area of a resized image; smaller ones are enlarged. `size.shortest_edge` in later files."""
    max_pixels: int
    """Largest area of a resized image; larger ones are shrunk. `size.longest_edge` in later files."""

    @property
    def cell_px(self) -> int:
        """Side of a window."""
        return self.patch_size * self.merge_size

    def _own_violations(self) -> Iterator[ConfigViolation]:
        yield from outside("min_pixels", self.min_pixels, 1, MAX_AREA_PX)
        yield from outside("max_pixels", self.max_pixels, 1, MAX_AREA_PX)

    def _own_form(self) -> CanonicalForm:
        return {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}


def smart_resized(config: AreaBoundedConfig, size: Size, *, frame_count: int) -> Size:
    """The nearest size of whole windows whose area, times `frame_count`, is within the bounds.

    Every float64 operation and its order is the reference's and decides the token count: 19 x 19 pixels become 84 x 84
    where exact arithmetic says 56 x 56. Python's `round` is half to even, as the reference's.
    """
    width_px, height_px, cell_px = size.width_px, size.height_px, config.cell_px
    new_height_px = round(height_px / cell_px) * cell_px
    new_width_px = round(width_px / cell_px) * cell_px
    if frame_count * new_height_px * new_width_px > config.max_pixels:
        shrinks_by = math.sqrt((frame_count * height_px * width_px) / config.max_pixels)
        new_height_px = max(cell_px, math.floor(height_px / shrinks_by / cell_px) * cell_px)
        new_width_px = max(cell_px, math.floor(width_px / shrinks_by / cell_px) * cell_px)
    elif frame_count * new_height_px * new_width_px < config.min_pixels:
        grows_by = math.sqrt(config.min_pixels / (frame_count * height_px * width_px))
        new_height_px = math.ceil(height_px * grows_by / cell_px) * cell_px
        new_width_px = math.ceil(width_px * grows_by / cell_px) * cell_px
    return Size(new_width_px, new_height_px)
