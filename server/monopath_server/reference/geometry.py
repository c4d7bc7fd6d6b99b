"""From the size of an image to the size, padding and patch grid of its features: arithmetic on sizes alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from monopath_server.reference.config import ReferenceConfig, ResampleKernelName

__all__ = ["ReferencePlan", "kimi_plan", "vertical_pass_first"]


@dataclass(frozen=True, slots=True)
class ReferencePlan:
    """What becomes of one image of a given size. All sizes are (width, height) in pixels."""

    original_size: tuple[int, int]
    resized_size: tuple[int, int]
    padding: tuple[int, int]
    """Zero pixels added on the right and at the bottom."""
    grid_thw: tuple[int, int, int]
    """Number of patches in time, height and width; all zero where rows of features are no patches."""
    token_count: int
    tile_grid: tuple[int, int, int] | None = None
    """Tiles across and down, and thumbnails, none or one."""
    crop: tuple[int, int, int, int] | None = None
    """What is used of the resized image: left, top, width, height. None: all of it."""


def kimi_plan(config: ReferenceConfig, width_px: int, height_px: int) -> ReferencePlan:
    """Kimi-K2.5 and K3: the checkpoint's own arithmetic in double precision, in its own order of operations.

    Raises:
        ValueError: A side is zero, padding pushes the grid over `patch_limit_on_one_side`, or `fixed_output_tokens`
            contradicts the grid.
    """
    if width_px < 1 or height_px < 1:
        raise ValueError(f"Expected sides of at least 1 pixel, got {width_px} x {height_px}")
    patch, merge = config.patch_size, config.merge_kernel_size
    side_limit_px = config.patch_limit_on_one_side * patch
    cell_count = max(1.0, width_px // patch) * max(1.0, height_px // patch)
    scale = min(
        1.0,
        math.sqrt(config.in_patch_limit / cell_count),
        side_limit_px / width_px,
        side_limit_px / height_px,
    )
    new_width_px = min(max(1, int(width_px * scale)), side_limit_px)
    new_height_px = min(max(1, int(height_px * scale)), side_limit_px)
    factor = merge * patch
    pad_right_px = (factor - new_width_px % factor) % factor
    pad_bottom_px = (factor - new_height_px % factor) % factor
    padded_width_px, padded_height_px = new_width_px + pad_right_px, new_height_px + pad_bottom_px
    grid_height, grid_width = padded_height_px // patch, padded_width_px // patch
    if max(grid_height, grid_width) > config.patch_limit_on_one_side:
        raise ValueError(
            f"Expected at most {config.patch_limit_on_one_side} patches on one side, "
            f"got a grid of {grid_height} x {grid_width} after padding"
        )
    token_count = (padded_width_px // factor) * (padded_height_px // factor)
    if config.fixed_output_tokens is not None and config.fixed_output_tokens != token_count:
        raise ValueError(
            f"Expected {config.fixed_output_tokens} tokens (fixed_output_tokens), got {token_count} from the grid"
        )
    return ReferencePlan(
        original_size=(width_px, height_px),
        resized_size=(new_width_px, new_height_px),
        padding=(pad_right_px, pad_bottom_px),
        grid_thw=(1, grid_height, grid_width),
        token_count=token_count,
    )


def vertical_pass_first(kernel: ResampleKernelName, source: tuple[int, int], target: tuple[int, int]) -> bool:
    """Whether a two-pass resize filters vertically first: it changes the bytes, and Pillow changed it twice."""
    (width_px, height_px), (new_width_px, new_height_px) = source, target
    match kernel:
        case "PILLOW_11" | "ATEN_U8":
            return False
        case "PILLOW_12_2":
            return new_height_px < height_px and height_px > 100 * width_px
        case "PILLOW_13":
            return new_height_px < height_px and height_px - new_height_px > 2 * (width_px - new_width_px)
