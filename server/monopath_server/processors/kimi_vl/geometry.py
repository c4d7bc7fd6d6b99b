"""From an image's size to its plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.grids import check_sides
from monopath_server.processors.types import GridTHW, ImagePlan, Padding, Size

if TYPE_CHECKING:
    from monopath_server.processors.kimi_vl.config import KimiVlConfig

__all__ = ["POSITION_LIMIT", "plan_image"]

POSITION_LIMIT = 512
"""The encoder has fewer than this many positions on a side."""


def plan_image(config: KimiVlConfig, size: Size) -> ImagePlan:
    """Plan one image of `size` pixels. Unlike Kimi-K2.5 there is no limit of one side, only a refusal.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, before or after the resize, or of 512 patches or more.
    """
    check_sides(size)
    width_px, height_px = size.width_px, size.height_px
    cells = (width_px // config.patch_size) * (height_px // config.patch_size)
    resized = size
    if cells > config.in_token_limit:
        scale = math.sqrt(config.in_token_limit / cells)
        resized = Size(int(width_px * scale), int(height_px * scale))
        if resized.width_px < 1 or resized.height_px < 1:
            raise ItemFault(
                ItemReason.IMAGE_SIZE_INVALID, f"Expected at least 1 pixel after the resize, got {resized} for {size}"
            )
    window_px = config.merge_kernel_size * config.patch_size
    padding = Padding(-resized.width_px % window_px, -resized.height_px % window_px)
    grid = GridTHW(
        1,
        (resized.height_px + padding.bottom_px) // config.patch_size,
        (resized.width_px + padding.right_px) // config.patch_size,
    )
    if max(grid.h, grid.w) >= POSITION_LIMIT:
        raise ItemFault(
            ItemReason.IMAGE_SIZE_INVALID,
            f"Expected fewer than {POSITION_LIMIT} patches on one side, got {max(grid.h, grid.w)}",
        )
    token_count = grid.patch_count // (config.merge_kernel_size * config.merge_kernel_size)
    return ImagePlan(size, resized, padding, grid, token_count, config.patch_size)
