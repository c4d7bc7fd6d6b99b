"""From an image's size to its plan: resized size, padding, patch grid and token count. Pure arithmetic on sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import GridTHW, Padding, Size

if TYPE_CHECKING:
    from monopath_server.processors.kimi.config import KimiConfig

__all__ = ["plan_image"]


def plan_image(config: KimiConfig, size: Size) -> PatchGridPlan:
    """Plan one image of `size` pixels.

    The order of the float64 operations is the checkpoint's and decides the truncated sizes: 8366 pixels scaled by
    7168/8366 are 7167, not 7168. Do not simplify.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of zero pixels or a grid longer than `patch_limit_on_one_side`;
            TOKEN_COUNT_CONTRADICTION where `fixed_output_tokens` is not the grid's token count.
    """
    width_px, height_px = size.width_px, size.height_px
    if width_px < 1 or height_px < 1:
        raise ItemFault(ItemReason.IMAGE_SIZE_INVALID, f"Expected sides of at least 1 pixel, got {size}")
    patch_size = config.patch_size
    side_limit_px = config.patch_limit_on_one_side * patch_size

    cells = max(1.0, width_px // patch_size) * max(1.0, height_px // patch_size)
    scale = min(1.0, math.sqrt(config.in_patch_limit / cells), side_limit_px / width_px, side_limit_px / height_px)
    resized = Size(
        min(max(1, int(width_px * scale)), side_limit_px),
        min(max(1, int(height_px * scale)), side_limit_px),
    )
    window_px = config.merge_kernel_size * patch_size
    padding = Padding(-resized.width_px % window_px, -resized.height_px % window_px)
    grid = GridTHW(
        1,
        (resized.height_px + padding.bottom_px) // patch_size,
        (resized.width_px + padding.right_px) // patch_size,
    )
    longest_side = max(grid.h, grid.w)
    if longest_side > config.patch_limit_on_one_side:
        # Padding can push an image over an odd limit; the checkpoint asserts here.
        raise ItemFault(
            ItemReason.IMAGE_SIZE_INVALID,
            f"Expected at most {config.patch_limit_on_one_side} patches on one side, got {longest_side} after padding",
        )
    token_count = grid.patch_count // (config.merge_kernel_size * config.merge_kernel_size)
    if config.fixed_output_tokens is not None and config.fixed_output_tokens != token_count:
        raise ItemFault(
            ItemReason.TOKEN_COUNT_CONTRADICTION,
            f"Expected {config.fixed_output_tokens} tokens (fixed_output_tokens), got {token_count} from the grid",
        )
    return PatchGridPlan(
        original_size=size,
        resized_size=resized,
        token_count=token_count,
        padding=padding,
        grid_thw=grid,
        patch_size=patch_size,
    )
