"""The kinds of plans: what the rows of an image's features are."""

from __future__ import annotations

from dataclasses import dataclass

from monopath_server.processors.types import Crop, GridTHW, ImagePlan, Padding, RowLayout, Size, Sweep, TileGrid

__all__ = ["FixedSizePlan", "PatchGridPlan", "TilePlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchGridPlan(ImagePlan):
    """One row for each patch of a grid."""

    padding: Padding
    grid_thw: GridTHW
    patch_size: int
    """Side of a patch in pixels."""
    temporal_copies: int | None = None
    """How often each channel of a patch is in its row, one copy behind the other; None: once, without a dimension."""
    window_size: int = 1
    """Patches a side of the square windows that rows are grouped by; 1: raster order."""
    crop: Crop | None = None
    """What the grid lies on; None: all of the resized image."""

    @property
    def row_count(self) -> int:
        return self.grid_thw.patch_count

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(3, patch_size, patch_size), with the temporal copies behind the channels."""
        copies = () if self.temporal_copies is None else (self.temporal_copies,)
        return (3, *copies, self.patch_size, self.patch_size)

    @property
    def layout(self) -> RowLayout:
        return RowLayout(self.patch_size, self.patch_size, self.window_size, self.temporal_copies or 1)

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        crop = self.crop or Crop(0, 0, self.resized_size)
        return (Sweep(self.resized_size, crop, self.grid_thw.h, self.grid_thw.w),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TilePlan(ImagePlan):
    """One row for each tile, line by line; where there is a thumbnail, it is one more, and the last."""

    tile_grid: TileGrid

    @property
    def row_count(self) -> int:
        return self.tile_grid.tile_count

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(3, tile_size, tile_size)."""
        return (3, self.tile_grid.tile_size, self.tile_grid.tile_size)

    @property
    def layout(self) -> RowLayout:
        return RowLayout(self.tile_grid.tile_size, self.tile_grid.tile_size)

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        grid = self.tile_grid
        tiles = Sweep(self.resized_size, Crop(0, 0, self.resized_size), grid.rows, grid.columns)
        if not grid.has_thumbnail:
            return (tiles,)
        tile = Size(grid.tile_size, grid.tile_size)
        return (tiles, Sweep(tile, Crop(0, 0, tile), 1, 1, first_row=tiles.row_count))


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSizePlan(ImagePlan):
    """One row, which is the whole image in the size that all images get."""

    crop: Crop
    """What is kept of the resized image, in the size that all images get."""

    @property
    def row_count(self) -> int:
        return 1

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(3, height, width)."""
        return (3, self.crop.size.height_px, self.crop.size.width_px)

    @property
    def layout(self) -> RowLayout:
        return RowLayout(self.crop.size.height_px, self.crop.size.width_px)

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        return (Sweep(self.resized_size, self.crop, 1, 1),)
