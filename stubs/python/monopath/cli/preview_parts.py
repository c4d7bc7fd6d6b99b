"""What the rows of an image's features are pictures of, in every family: patches of one, tiles and a thumbnail, or one
row that is all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monopath import ImagePlan, ProtocolError
from monopath.cli.preview_picture import Grid
from monopath.cli.preview_rows import Pixels, unpatchify
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.fixed_size.config import FixedSizeConfig
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi_vl.config import KimiVlConfig

__all__ = ["Part", "Picture", "merge_size", "parts", "pictures"]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of features that are one picture."""

    name: str
    """Of one that is not the only one: "thumbnail"; else empty."""
    first_row: int
    rows: int
    """Patches, or tiles, down."""
    columns: int
    window_size: int
    """Rows are grouped by square windows of this many patches a side; 1: raster order."""
    cell_px: tuple[int, int]
    """(width, height) of a patch or tile."""
    grid: Grid | None
    """The lines that it is cut along; None where it is not, or where nobody knows."""

    @property
    def row_count(self) -> int:
        """Rows of features."""
        return self.rows * self.columns

    def row_at(self, row: int, column: int) -> int:
        """Return which row of the features holds a patch or tile."""
        side = self.window_size
        window = row // side * (self.columns // side) + column // side
        return self.first_row + (window * side + row % side) * side + column % side


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A part, put together."""

    part: Part
    pixels: Pixels


def parts(plan: ImagePlan, config: ProcessorConfig) -> tuple[Part, ...]:
    """Return the pictures that an image became. Raises ProtocolError for a plan of a kind that is not known here."""
    layout = config.arithmetic.layout
    resized_px = (plan.resized_size.width_px, plan.resized_size.height_px)
    if plan.grid_thw is not None:
        if plan.grid_thw.t != 1:
            raise ProtocolError(f"Expected the grid of a still image, got {plan.grid_thw.t} frames")
        if plan.crop is not None:
            resized_px = (plan.crop.width_px, plan.crop.height_px)
        grid = Grid(layout.patch_width_px, merge_size(config), resized_px)
        cell_px = (layout.patch_width_px, layout.patch_height_px)
        return (Part("", 0, plan.grid_thw.h, plan.grid_thw.w, layout.window_size, cell_px, grid),)
    if plan.tile_grid is not None:
        tiles, side_px = plan.tile_grid, plan.tile_grid.tile_size_px
        grid = Grid(side_px, 1, resized_px, unit="tile")
        mosaic = Part("", 0, tiles.rows, tiles.columns, 1, (side_px, side_px), grid)
        if not tiles.has_thumbnail:
            return (mosaic,)
        return (mosaic, Part("thumbnail", mosaic.row_count, 1, 1, 1, (side_px, side_px), None))
    if plan.fixed_size is not None:
        size_px = (plan.fixed_size.width_px, plan.fixed_size.height_px)
        patch_size = config.patch_size if isinstance(config, FixedSizeConfig) else None
        return (Part("", 0, 1, 1, 1, size_px, None if patch_size is None else Grid(patch_size, 1, size_px, "patch")),)
    raise ProtocolError("Expected a plan of patches, of tiles or of one size, got another kind")


def pictures(pixel_rows: Pixels, plan: ImagePlan, config: ProcessorConfig) -> Iterator[Picture]:
    """Put the rows of an image together. Raises ValueError for rows that are not those of its plan, ProtocolError for a
    plan that is none of this config."""
    used = 0
    for part in parts(plan, config):
        rows = pixel_rows[part.first_row : part.first_row + part.row_count]
        pixels = unpatchify(rows, part.rows, part.columns, part.window_size)
        wanted_px = (part.columns * part.cell_px[0], part.rows * part.cell_px[1])
        if (pixels.shape[1], pixels.shape[0]) != wanted_px:
            raise ValueError(f"Expected a picture of {wanted_px} pixels, got one of {pixels.shape[1::-1]}")
        yield Picture(part, pixels)
        used += part.row_count
    if used != len(pixel_rows):
        raise ValueError(f"Expected {used} rows of features, got {len(pixel_rows)}")


def merge_size(config: ProcessorConfig) -> int:
    """Return the patches on a side of the window that becomes one token."""
    if isinstance(config, KimiConfig | KimiVlConfig):
        return config.merge_kernel_size
    # Families that merge windows group their rows by them.
    return config.arithmetic.layout.window_size
