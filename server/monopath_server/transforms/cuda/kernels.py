# ruff: noqa: N803
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls, allow-incomplete-defs
"""The two Triton kernels: integers and look-ups only. Compile-time arguments are in capitals, as Triton has it.

`filter_first_axis` filters the first of an image's resized axes into scratch. `write_patches` filters the second one,
or just reads, then composites, pads, looks up the final element and writes it to its place in its patch. Weights,
composite and element tables come from the host, so no arithmetic here can round: there is no floating-point type, no
division, and so nothing that another GPU or another Triton could do differently.

Import this module through `runtime.load_kernels` alone: Triton decides at the import whether it compiles or interprets.

A program reads its tile, (strip, row << 16 | column), and the strip's row of int64 descriptors (`layout.Column`).
Pixels are 4-byte words: red in the low byte, alpha in the high one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from monopath_server.transforms.coefficients import WEIGHT_BITS as _WEIGHT_BITS
from monopath_server.transforms.cuda.layout import COLUMN_COUNT as _COLUMN_COUNT
from monopath_server.transforms.cuda.layout import HORIZONTAL as _HORIZONTAL
from monopath_server.transforms.cuda.layout import VERTICAL as _VERTICAL
from monopath_server.transforms.cuda.layout import Column

__all__ = ["filter_first_axis", "write_patches"]

# Triton reads globals only where they are constexpr.
WEIGHT_BITS = tl.constexpr(_WEIGHT_BITS)
HALF = tl.constexpr(1 << (_WEIGHT_BITS - 1))
HORIZONTAL = tl.constexpr(_HORIZONTAL)
VERTICAL = tl.constexpr(_VERTICAL)
COLUMN_COUNT = tl.constexpr(_COLUMN_COUNT)
SOURCE = tl.constexpr(int(Column.SOURCE))
SOURCE_PITCH = tl.constexpr(int(Column.SOURCE_PITCH))
OPAQUE_MASK = tl.constexpr(int(Column.OPAQUE_MASK))
FIRST_AXIS = tl.constexpr(int(Column.FIRST_AXIS))
FIRST_TAP_COUNT = tl.constexpr(int(Column.FIRST_TAP_COUNT))
FIRST_STARTS = tl.constexpr(int(Column.FIRST_STARTS))
FIRST_WEIGHTS = tl.constexpr(int(Column.FIRST_WEIGHTS))
FIRST_TARGET_COUNT = tl.constexpr(int(Column.FIRST_TARGET_COUNT))
SCRATCH = tl.constexpr(int(Column.SCRATCH))
SCRATCH_WIDTH = tl.constexpr(int(Column.SCRATCH_WIDTH))
SCRATCH_ROW_BEGIN = tl.constexpr(int(Column.SCRATCH_ROW_BEGIN))
SCRATCH_ROW_END = tl.constexpr(int(Column.SCRATCH_ROW_END))
INPUT = tl.constexpr(int(Column.INPUT))
INPUT_PITCH = tl.constexpr(int(Column.INPUT_PITCH))
SECOND_AXIS = tl.constexpr(int(Column.SECOND_AXIS))
SECOND_TAP_COUNT = tl.constexpr(int(Column.SECOND_TAP_COUNT))
SECOND_STARTS = tl.constexpr(int(Column.SECOND_STARTS))
SECOND_WEIGHTS = tl.constexpr(int(Column.SECOND_WEIGHTS))
SECOND_TARGET_COUNT = tl.constexpr(int(Column.SECOND_TARGET_COUNT))
RESIZED_WIDTH = tl.constexpr(int(Column.RESIZED_WIDTH))
RESIZED_HEIGHT = tl.constexpr(int(Column.RESIZED_HEIGHT))
GRID_WIDTH = tl.constexpr(int(Column.GRID_WIDTH))
OUTPUT = tl.constexpr(int(Column.OUTPUT))
ALPHA_TABLE = tl.constexpr(int(Column.ALPHA_TABLE))


@triton.jit
def _field(descriptor, column: tl.constexpr):
    return tl.load(descriptor + column).to(tl.int32)


@triton.jit
def _round_to_byte(total):
    return tl.minimum(tl.maximum(total >> WEIGHT_BITS, 0), 255)


@triton.jit
def _premultiply(color, alpha):
    product = color * alpha + 128
    return (product + (product >> 8)) >> 8


@triton.jit
def filter_first_axis(
    words,
    descriptors,
    tiles,
    coefficients,
    HAS_ALPHA: tl.constexpr,
    UNROLL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Filters ROWS x COLUMNS pixels of scratch along the strip's first axis, premultiplying what it reads.

    `words` int32 holds source and scratch pixels. A tap count is a multiple of UNROLL, and the host has moved every
    window so that it ends inside the image, or where weights are zero and memory is ours: no index is clamped.
    """
    program = tl.program_id(0)
    descriptor = descriptors + tl.load(tiles + 2 * program).to(tl.int64) * COLUMN_COUNT
    place = tl.load(tiles + 2 * program + 1)
    width = _field(descriptor, SCRATCH_WIDTH)
    pitch = _field(descriptor, SOURCE_PITCH)
    tap_count = _field(descriptor, FIRST_TAP_COUNT)
    target_count = _field(descriptor, FIRST_TARGET_COUNT)
    opaque = _field(descriptor, OPAQUE_MASK)
    row = _field(descriptor, SCRATCH_ROW_BEGIN) + ((place >> 16) & 0xFFFF) * ROWS + tl.arange(0, ROWS)
    column = (place & 0xFFFF) * COLUMNS + tl.arange(0, COLUMNS)
    row_used = row < _field(descriptor, SCRATCH_ROW_END)
    column_used = column < width
    used = row_used[:, None] & column_used[None, :]
    source = words + tl.load(descriptor + SOURCE)
    starts = coefficients + tl.load(descriptor + FIRST_STARTS)
    weights = coefficients + tl.load(descriptor + FIRST_WEIGHTS)
    red = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    green = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    blue = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    alpha = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    if _field(descriptor, FIRST_AXIS) == HORIZONTAL:
        start = tl.load(starts + column, mask=column_used, other=0)
        across = source + ((row * pitch)[:, None] + start[None, :])
        across_weights = weights + column
        for _ in range(0, tap_count, UNROLL):
            for tap in tl.static_range(UNROLL):
                weight = tl.load(across_weights + tap * target_count, mask=column_used, other=0)[None, :]
                word = tl.load(across + tap, mask=used, other=0)
                if HAS_ALPHA:
                    # Or-ing 255 makes an image without alpha opaque, for which premultiplying changes nothing.
                    level = ((word >> 24) & 255) | opaque
                    red += _premultiply(word & 255, level) * weight
                    green += _premultiply((word >> 8) & 255, level) * weight
                    blue += _premultiply((word >> 16) & 255, level) * weight
                    alpha += level * weight
                else:
                    red += (word & 255) * weight
                    green += ((word >> 8) & 255) * weight
                    blue += ((word >> 16) & 255) * weight
            across += UNROLL
            across_weights += UNROLL * target_count
    else:
        first = tl.load(starts + row, mask=row_used, other=0)
        down = source + ((first * pitch)[:, None] + column[None, :])
        down_weights = weights + row
        for _ in range(0, tap_count, UNROLL):
            for tap in tl.static_range(UNROLL):
                row_weight = tl.load(down_weights + tap * target_count, mask=row_used, other=0)[:, None]
                below = tl.load(down + tap * pitch, mask=used, other=0)
                if HAS_ALPHA:
                    cover = ((below >> 24) & 255) | opaque
                    red += _premultiply(below & 255, cover) * row_weight
                    green += _premultiply((below >> 8) & 255, cover) * row_weight
                    blue += _premultiply((below >> 16) & 255, cover) * row_weight
                    alpha += cover * row_weight
                else:
                    red += (below & 255) * row_weight
                    green += ((below >> 8) & 255) * row_weight
                    blue += ((below >> 16) & 255) * row_weight
            down += UNROLL * pitch
            down_weights += UNROLL * target_count
    result = _round_to_byte(red) | (_round_to_byte(green) << 8) | (_round_to_byte(blue) << 16)
    if HAS_ALPHA:
        result = result | (_round_to_byte(alpha) << 24)
    scratch = words + tl.load(descriptor + SCRATCH)
    tl.store(scratch + ((row * width)[:, None] + column[None, :]), result, mask=used)


@triton.jit
def write_patches(
    words,
    descriptors,
    tiles,
    coefficients,
    square_parity,
    alpha_tables,
    element_table,
    output,
    HAS_ALPHA: tl.constexpr,
    HAS_SECOND_AXIS: tl.constexpr,
    UNROLL: tl.constexpr,
    PATCH_HEIGHT: tl.constexpr,
    PATCH_WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
    PARTS: tl.constexpr,
    PATCHES: tl.constexpr,
    WINDOW: tl.constexpr,
    COPIES: tl.constexpr,
):
    """Writes PATCHES neighbouring patches of one patch row; POSITIONS is what a patch has, up to a power of two.

    Of patches that are larger one program takes one of PARTS parts of POSITIONS each.

    `square_parity` uint8 [side]: parity of the background square of a coordinate. `alpha_tables` uint8 [2 resized,
    2 parity, 256 alpha, 256 stored colour]. `element_table` and `output` hold the elements' raw bits, as integers.
    """
    program = tl.program_id(0)
    descriptor = descriptors + tl.load(tiles + 2 * program).to(tl.int64) * COLUMN_COUNT
    place = tl.load(tiles + 2 * program + 1)
    grid_row = (place >> 16) & 0xFFFF
    grid_width = _field(descriptor, GRID_WIDTH)
    width = _field(descriptor, RESIZED_WIDTH)
    height = _field(descriptor, RESIZED_HEIGHT)
    pitch = _field(descriptor, INPUT_PITCH)
    # Divisions by constants: the compiler makes them multiplications.
    group = (place & 0xFFFF) // PARTS
    position = ((place & 0xFFFF) - group * PARTS) * POSITIONS + tl.arange(0, POSITIONS)
    row_in_patch = position // PATCH_WIDTH
    column_in_patch = position - row_in_patch * PATCH_WIDTH
    grid_column = group * PATCHES + tl.arange(0, PATCHES)
    row = grid_row * PATCH_HEIGHT + row_in_patch
    column = (grid_column * PATCH_WIDTH)[:, None] + column_in_patch[None, :]
    in_patch = position < PATCH_HEIGHT * PATCH_WIDTH
    in_grid = grid_column < grid_width
    row_used = in_patch & (row < height)
    used = row_used[None, :] & (column < width) & in_grid[:, None]
    pixels = words + tl.load(descriptor + INPUT)
    second_axis = _field(descriptor, SECOND_AXIS)
    red = tl.full((PATCHES, POSITIONS), 0, tl.int32)
    green = tl.full((PATCHES, POSITIONS), 0, tl.int32)
    blue = tl.full((PATCHES, POSITIONS), 0, tl.int32)
    alpha = tl.full((PATCHES, POSITIONS), 0, tl.int32)
    # Not one `and`: only the first condition is known when Triton compiles.
    if HAS_SECOND_AXIS:  # noqa: SIM102
        if second_axis != 0:
            tap_count = _field(descriptor, SECOND_TAP_COUNT)
            target_count = _field(descriptor, SECOND_TARGET_COUNT)
            starts = coefficients + tl.load(descriptor + SECOND_STARTS)
            weights = coefficients + tl.load(descriptor + SECOND_WEIGHTS)
            red_total = tl.full((PATCHES, POSITIONS), HALF, tl.int32)
            green_total = tl.full((PATCHES, POSITIONS), HALF, tl.int32)
            blue_total = tl.full((PATCHES, POSITIONS), HALF, tl.int32)
            alpha_total = tl.full((PATCHES, POSITIONS), HALF, tl.int32)
            if second_axis == VERTICAL:
                first = tl.load(starts + row, mask=row_used, other=0)
                down = pixels + ((first * pitch)[None, :] + column)
                down_weights = weights + row
                for _ in range(0, tap_count, UNROLL):
                    for tap in tl.static_range(UNROLL):
                        row_weight = tl.load(down_weights + tap * target_count, mask=row_used, other=0)[None, :]
                        below = tl.load(down + tap * pitch, mask=used, other=0)
                        red_total += (below & 255) * row_weight
                        green_total += ((below >> 8) & 255) * row_weight
                        blue_total += ((below >> 16) & 255) * row_weight
                        if HAS_ALPHA:
                            alpha_total += ((below >> 24) & 255) * row_weight
                    down += UNROLL * pitch
                    down_weights += UNROLL * target_count
            else:
                start = tl.load(starts + column, mask=used, other=0)
                across = pixels + ((row * pitch)[None, :] + start)
                across_weights = weights + column
                for _ in range(0, tap_count, UNROLL):
                    for tap in tl.static_range(UNROLL):
                        weight = tl.load(across_weights + tap * target_count, mask=used, other=0)
                        word = tl.load(across + tap, mask=used, other=0)
                        red_total += (word & 255) * weight
                        green_total += ((word >> 8) & 255) * weight
                        blue_total += ((word >> 16) & 255) * weight
                        if HAS_ALPHA:
                            alpha_total += ((word >> 24) & 255) * weight
                    across += UNROLL
                    across_weights += UNROLL * target_count
            red = _round_to_byte(red_total)
            green = _round_to_byte(green_total)
            blue = _round_to_byte(blue_total)
            alpha = _round_to_byte(alpha_total)
    if second_axis == 0:
        ready = tl.load(pixels + ((row * pitch)[None, :] + column), mask=used, other=0)
        red = ready & 255
        green = (ready >> 8) & 255
        blue = (ready >> 16) & 255
        alpha = (ready >> 24) & 255
    if HAS_ALPHA:
        # Opaque pixels look themselves up, so images without alpha may share the launch.
        level = alpha | _field(descriptor, OPAQUE_MASK)
        row_parity = tl.load(square_parity + row, mask=row_used, other=0).to(tl.int32)
        column_parity = tl.load(square_parity + column, mask=used, other=0).to(tl.int32)
        entry = ((row_parity[None, :] ^ column_parity) << 16) + (level << 8)
        composites = alpha_tables + tl.load(descriptor + ALPHA_TABLE)
        red = tl.load(composites + (entry + red), mask=used, other=0).to(tl.int32)
        green = tl.load(composites + (entry + green), mask=used, other=0).to(tl.int32)
        blue = tl.load(composites + (entry + blue), mask=used, other=0).to(tl.int32)
    # Padding is the pixel value 0, in every element type what the table says of 0.
    red = tl.where(used, red, 0)
    green = tl.where(used, green, 0)
    blue = tl.where(used, blue, 0)
    written = in_patch[None, :] & in_grid[:, None]
    # Rows are grouped by windows of WINDOW x WINDOW patches; divisions by constants again.
    window_row = grid_row // WINDOW
    window_column = grid_column // WINDOW
    row_in_window = grid_row - window_row * WINDOW
    column_in_window = grid_column - window_column * WINDOW
    patch_index = (
        window_row * (WINDOW * grid_width)
        + window_column * (WINDOW * WINDOW)
        + row_in_window * WINDOW
        + column_in_window
    )
    place_in_output = (patch_index * (3 * COPIES * PATCH_HEIGHT * PATCH_WIDTH))[:, None] + position[None, :]
    elements = output + tl.load(descriptor + OUTPUT) + place_in_output
    red_element = tl.load(element_table + red)
    green_element = tl.load(element_table + (256 + green))
    blue_element = tl.load(element_table + (512 + blue))
    for copy in tl.static_range(COPIES):
        tl.store(elements + copy * PATCH_HEIGHT * PATCH_WIDTH, red_element, mask=written)
        tl.store(elements + (COPIES + copy) * PATCH_HEIGHT * PATCH_WIDTH, green_element, mask=written)
        tl.store(elements + (2 * COPIES + copy) * PATCH_HEIGHT * PATCH_WIDTH, blue_element, mask=written)
