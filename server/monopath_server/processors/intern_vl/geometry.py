"""From an image's size to the grid of tiles whose proportions are nearest."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from monopath_server.processors.grids import check_sides
from monopath_server.processors.plans import TilePlan
from monopath_server.processors.types import Size, TileGrid

if TYPE_CHECKING:
    from monopath_server.processors.intern_vl.config import InternVlConfig

__all__ = ["plan_image"]


def plan_image(config: InternVlConfig, size: Size) -> TilePlan:
    """Plan one image of `size` pixels. Any proportions do.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel.
    """
    check_sides(size)
    columns, rows = _nearest_grid(config, size)
    tile_grid = TileGrid(columns, rows, config.has_thumbnail and columns * rows != 1, config.tile_size)
    return TilePlan(
        original_size=size,
        resized_size=Size(config.tile_size * columns, config.tile_size * rows),
        token_count=tile_grid.tile_count * (config.tokens_per_tile or 0),
        tile_grid=tile_grid,
    )


@functools.lru_cache(maxsize=64)
def _grids(min_tiles: int, max_tiles: int) -> tuple[tuple[int, int], ...]:
    """All grids (columns, rows) with as many tiles, fewest first."""
    sides = range(1, max_tiles + 1)
    grids = [(i, j) for i in sides for j in sides if min_tiles <= i * j <= max_tiles]
    return tuple(sorted(grids, key=lambda grid: grid[0] * grid[1]))


def _nearest_grid(config: InternVlConfig, size: Size) -> tuple[int, int]:
    """Of grids of one ratio the larger one, if the image has more than half of its area. All float64, as there."""
    aspect_ratio = size.width_px / size.height_px
    area_px = size.width_px * size.height_px
    best, least_difference = (1, 1), math.inf
    for columns, rows in _grids(config.min_tiles, config.max_tiles):
        difference = abs(aspect_ratio - columns / rows)
        if difference < least_difference:
            best, least_difference = (columns, rows), difference
        elif difference == least_difference and area_px > 0.5 * config.tile_size * config.tile_size * columns * rows:
            best = (columns, rows)
    return best
