"""One launch as plain arrays: descriptors, tiles and the places of everything in one buffer. No torch, no Triton.

The buffer of a launch is `descriptors | tiles | coefficients | pixels | scratch`. All but the scratch is filled on the
host and goes to the device in one copy.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monopath_server.processors.types import RowLayout
from monopath_server.transforms.cuda.strips import PIXEL_BYTES, DeviceImage, Strip
from monopath_server.transforms.cuda.windows import UNROLL, AxisKey, AxisWindows

__all__ = [
    "ALPHA_TABLE_ELEMENTS",
    "COLUMN_COUNT",
    "HORIZONTAL",
    "VERTICAL",
    "BatchLayout",
    "Column",
    "TileShape",
    "filter_constants",
    "lay_out",
    "tile_shape",
    "write_constants",
]

HORIZONTAL = 1
VERTICAL = 2
ALPHA_TABLE_ELEMENTS = 2 * 256 * 256
"""Elements of one composite table [2 parity, 256 alpha, 256 colour]; the one for resized images comes second."""
_LANES = 1024
"""Positions of patches that one program of `write_patches` takes, where a patch is not larger."""
_LARGEST_WHOLE_PATCH = 4096
"""Positions of a larger one, a tile for instance, are taken by several programs."""
SECTION_BYTES = 256
"""Every section begins on such a boundary, so that Triton compiles one variant: it specialises on alignment."""


class Column(enum.IntEnum):
    """Columns of a descriptor, int64. Offsets count words of 4 bytes unless they say otherwise."""

    SOURCE = 0
    """Of source row 0, were it there: a strip holds only the rows it needs."""
    SOURCE_PITCH = 1
    OPAQUE_MASK = 2
    """255 for an image without alpha, else 0."""
    FIRST_AXIS = 3
    """HORIZONTAL, VERTICAL, or 0 where nothing is filtered."""
    FIRST_TAP_COUNT = 4
    FIRST_STARTS = 5
    """Offset in the coefficients, as FIRST_WEIGHTS."""
    FIRST_WEIGHTS = 6
    FIRST_TARGET_COUNT = 7
    SCRATCH = 8
    """Of scratch row 0, as SOURCE."""
    SCRATCH_WIDTH = 9
    SCRATCH_ROW_BEGIN = 10
    SCRATCH_ROW_END = 11
    INPUT = 12
    """What `write_patches` reads: the scratch, or the source where nothing was filtered."""
    INPUT_PITCH = 13
    SECOND_AXIS = 14
    SECOND_TAP_COUNT = 15
    SECOND_STARTS = 16
    SECOND_WEIGHTS = 17
    SECOND_TARGET_COUNT = 18
    RESIZED_WIDTH = 19
    RESIZED_HEIGHT = 20
    GRID_WIDTH = 21
    OUTPUT = 22
    """Of the image's first patch in the output, in elements."""
    ALPHA_TABLE = 23
    """Offset in the composite tables, in elements."""


COLUMN_COUNT = len(Column)


@dataclass(frozen=True, slots=True)
class TileShape:
    """How much one program of each kernel does, and with how many warps."""

    filter_rows: int
    filter_columns: int
    filter_warps: int
    patches: int
    """Neighbouring patches of one patch row."""
    positions: int
    """Positions of one patch, up to a power of two; of a part of it where a patch is large."""
    parts: int
    """Parts of a patch, one program each."""
    write_warps: int


def tile_shape(row_layout: RowLayout, *, scale: int = 1) -> TileShape:
    """Return the fixed tiles for a size of patches. There is no autotuner: the kernels are the same ones every time.

    `scale` makes both sides of a tile larger, for the interpreter: to it the number of programs is all that matters.
    """
    lanes = _LANES * scale * scale
    patch_positions = row_layout.patch_height_px * row_layout.patch_width_px
    positions = 1 << (patch_positions - 1).bit_length()
    if positions > _LARGEST_WHOLE_PATCH:
        positions = lanes
    return TileShape(
        filter_rows=8 * scale,
        filter_columns=64 * scale,
        filter_warps=4,
        patches=min(max(lanes // positions, 1), 256),
        positions=positions,
        parts=_ceil_divide(patch_positions, positions),
        write_warps=16 if positions > _LANES else 8,
    )


def filter_constants(tiles: TileShape, *, has_alpha: bool) -> dict[str, int]:
    """Compile-time arguments of `filter_first_axis`: two variants in all."""
    return {"HAS_ALPHA": has_alpha, "UNROLL": UNROLL, "ROWS": tiles.filter_rows, "COLUMNS": tiles.filter_columns}


def write_constants(
    tiles: TileShape, row_layout: RowLayout, *, has_alpha: bool, has_second_axis: bool
) -> dict[str, int]:
    """Compile-time arguments of `write_patches`: four variants for each layout of rows and element size."""
    return {
        "HAS_ALPHA": has_alpha,
        "HAS_SECOND_AXIS": has_second_axis,
        "UNROLL": UNROLL,
        "PATCH_HEIGHT": row_layout.patch_height_px,
        "PATCH_WIDTH": row_layout.patch_width_px,
        "POSITIONS": tiles.positions,
        "PARTS": tiles.parts,
        "PATCHES": tiles.patches,
        "WINDOW": row_layout.window_size,
        "COPIES": row_layout.temporal_copies,
    }


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """Everything the host has to write for one launch, and where. Offsets and sizes are bytes."""

    strips: tuple[Strip, ...]
    descriptors: NDArray[np.int64]
    """[strips, COLUMN_COUNT]"""
    filter_tiles: NDArray[np.int32]
    """[tiles, 2]: strip, row << 16 | column; empty where no image is resized."""
    write_tiles: NDArray[np.int32]
    new_windows: tuple[AxisWindows, ...]
    """Axes whose coefficients are not yet on the device; they go one behind the other."""
    filter_tiles_offset: int
    write_tiles_offset: int
    coefficients_offset: int
    source_offsets: tuple[int, ...]
    """Where the source rows of each strip begin."""
    upload_bytes: int
    """Size of all that the host writes."""
    buffer_bytes: int
    """Size of the whole buffer, with scratch and with what reads behind the last row may touch."""
    output_offsets: tuple[int, ...]
    """Where the rows of each strip begin in the output."""
    output_bytes: int
    has_alpha: bool
    has_second_axis: bool


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // SECTION_BYTES) * SECTION_BYTES


def _tiles(strip_index: int, row_begin: int, row_count: int, column_count: int) -> NDArray[np.int32]:
    """[row_count * column_count, 2]: all tiles of a strip, row by row."""
    rows = np.arange(row_begin, row_begin + row_count, dtype=np.int64)[:, None] << 16
    places = (rows | np.arange(column_count, dtype=np.int64)[None, :]).reshape(-1)
    tiles = np.empty((places.size, 2), np.int32)
    tiles[:, 0] = strip_index
    tiles[:, 1] = places.astype(np.uint32).view(np.int32)
    return tiles


def _ceil_divide(value: int, divisor: int) -> int:
    return -(-value // divisor)


def lay_out(
    strips: Sequence[Strip],
    tiles: TileShape,
    coefficient_offsets: Mapping[AxisKey, int],
    new_windows: Sequence[AxisWindows],
) -> BatchLayout:
    """Place everything of one launch.

    Args:
        strips: What to transform.
        tiles: Tiles of the kernels.
        coefficient_offsets: Where the coefficients of each axis are or will be on the device,
            in words.
        new_windows: Those of them that have to be copied there with this launch.
    """
    filter_tiles = [np.empty((0, 2), np.int32)]
    write_tiles = []
    for index, strip in enumerate(strips):
        begin, end = strip.scratch_rows
        row_tiles = _ceil_divide(end - begin, tiles.filter_rows)
        column_tiles = _ceil_divide(strip.image.scratch_width_px, tiles.filter_columns)
        filter_tiles.append(_tiles(index, 0, row_tiles, column_tiles))
        begin, end = strip.patch_rows
        column_tiles = _ceil_divide(strip.image.sweep.grid_columns, tiles.patches) * tiles.parts
        write_tiles.append(_tiles(index, begin, end - begin, column_tiles))
    all_filter_tiles, all_write_tiles = np.concatenate(filter_tiles), np.concatenate(write_tiles)

    filter_tiles_offset = _aligned(len(strips) * COLUMN_COUNT * 8)
    write_tiles_offset = filter_tiles_offset + _aligned(all_filter_tiles.nbytes)
    coefficients_offset = write_tiles_offset + _aligned(all_write_tiles.nbytes)
    place = coefficients_offset + _aligned(sum(windows.coefficients.nbytes for windows in new_windows))
    source_offsets = []
    placed: dict[tuple[object, ...], int] = {}
    for strip in strips:
        # An image that is swept twice goes to the device once.
        key = (strip.image.index, *strip.source_rows, *strip.image.source_area)
        if key not in placed:
            placed[key] = place
            place += strip.source_bytes
        source_offsets.append(placed[key])
    upload_bytes = place
    place = _aligned(place)
    scratch_offsets = []
    for strip in strips:
        scratch_offsets.append(place)
        place += strip.scratch_bytes
    output_offsets = []
    output_bytes = 0
    for strip in strips:
        output_offsets.append(output_bytes)
        output_bytes += strip.output_bytes

    return BatchLayout(
        strips=tuple(strips),
        descriptors=np.array(
            [
                _descriptor(strip, coefficient_offsets, source, scratch, output)
                for strip, source, scratch, output in zip(
                    strips, source_offsets, scratch_offsets, output_offsets, strict=True
                )
            ],
            np.int64,
        ),
        filter_tiles=all_filter_tiles,
        write_tiles=all_write_tiles,
        new_windows=tuple(new_windows),
        filter_tiles_offset=filter_tiles_offset,
        write_tiles_offset=write_tiles_offset,
        coefficients_offset=coefficients_offset,
        source_offsets=tuple(source_offsets),
        upload_bytes=upload_bytes,
        buffer_bytes=_aligned(place + _overrun_bytes(strips)),
        output_offsets=tuple(output_offsets),
        output_bytes=output_bytes,
        has_alpha=any(strip.image.has_alpha for strip in strips),
        has_second_axis=any(len(strip.image.passes) == 2 for strip in strips),
    )


def _overrun_bytes(strips: Sequence[Strip]) -> int:
    """What windows longer than their axis read behind it, with weights of zero."""
    overrun_bytes = 0
    for image in (strip.image for strip in strips):
        row_px = max(image.source_size.width_px, image.scratch_width_px)
        for resize_pass in image.passes:
            excess = max(resize_pass.windows.tap_count - resize_pass.windows.source_count, 0)
            overrun_bytes = max(overrun_bytes, (excess * (row_px if resize_pass.is_vertical else 1)) * PIXEL_BYTES)
    return overrun_bytes


def _descriptor(
    strip: Strip,
    coefficient_offsets: Mapping[AxisKey, int],
    source_offset: int,
    scratch_offset: int,
    output_offset: int,
) -> list[int]:
    """One row of the descriptors. Offsets given are bytes; those of rows a strip does not hold are subtracted."""
    image = strip.image
    width_px, scratch_width_px = image.source_size.width_px, image.scratch_width_px
    source = source_offset // PIXEL_BYTES - strip.source_rows[0] * width_px
    scratch = scratch_offset // PIXEL_BYTES - strip.scratch_rows[0] * scratch_width_px
    first_axis, *first = _pass_fields(image, 0, coefficient_offsets)
    second_axis, *second = _pass_fields(image, 1, coefficient_offsets)
    fields = {
        Column.SOURCE: source,
        Column.SOURCE_PITCH: width_px,
        Column.OPAQUE_MASK: 0 if image.has_alpha else 255,
        Column.FIRST_AXIS: first_axis,
        Column.FIRST_TAP_COUNT: first[0],
        Column.FIRST_STARTS: first[1],
        Column.FIRST_WEIGHTS: first[2],
        Column.FIRST_TARGET_COUNT: first[3],
        Column.SCRATCH: scratch,
        Column.SCRATCH_WIDTH: scratch_width_px,
        Column.SCRATCH_ROW_BEGIN: strip.scratch_rows[0],
        Column.SCRATCH_ROW_END: strip.scratch_rows[1],
        Column.INPUT: scratch if image.passes else source,
        Column.INPUT_PITCH: scratch_width_px if image.passes else width_px,
        Column.SECOND_AXIS: second_axis,
        Column.SECOND_TAP_COUNT: second[0],
        Column.SECOND_STARTS: second[1],
        Column.SECOND_WEIGHTS: second[2],
        Column.SECOND_TARGET_COUNT: second[3],
        Column.RESIZED_WIDTH: image.sweep.crop.size.width_px,
        Column.RESIZED_HEIGHT: image.sweep.crop.size.height_px,
        Column.GRID_WIDTH: image.sweep.grid_columns,
        Column.OUTPUT: (output_offset - strip.output_offset_bytes) // image.element_bytes,
        Column.ALPHA_TABLE: ALPHA_TABLE_ELEMENTS if image.passes else 0,
    }
    return [fields[column] for column in Column]


def _pass_fields(
    image: DeviceImage, number: int, coefficient_offsets: Mapping[AxisKey, int]
) -> tuple[int, int, int, int, int]:
    """Axis, tap count, offsets of starts and weights, target count; zeros for a pass that an image does not have."""
    if number >= len(image.passes):
        return 0, 0, 0, 0, 0
    resize_pass = image.passes[number]
    windows = resize_pass.windows
    starts = coefficient_offsets[windows.key]
    axis = VERTICAL if resize_pass.is_vertical else HORIZONTAL
    return axis, windows.tap_count, starts, starts + windows.target_count, windows.target_count
