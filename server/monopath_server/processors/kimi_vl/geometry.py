"""From an image's size to its plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.grids import check_sides
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import Crop, GridTHW, Padding, Size

if TYPE_CHECKING:
    from monopath_server.processors.kimi_vl.config import KimiVlConfig

__all__ = ["POSITION_LIMIT", "plan_image"]

POSITION_LIMIT = 512
"""The encoder has fewer than this many positions on a side."""


def plan_image(config: KimiVlConfig, size: Size) -> PatchGridPlan:
    """Plan one image of `size` pixels. Unlike Kimi-K2.5 there is no limit of one side, only a refusal.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, before or after the resize, or of 512 patches or more; for
            a config that crops also where whole patches are left that are no whole windows.
    """
    check_sides(size)
    resized = _resized(config, size)
    patch, merge = config.patch_size, config.merge_kernel_size
    if config.pad_input:
        padding = Padding(-resized.width_px % (merge * patch), -resized.height_px % (merge * patch))
        grid = GridTHW(
            1, (resized.height_px + padding.bottom_px) // patch, (resized.width_px + padding.right_px) // patch
        )
        crop = None
    else:
        padding = Padding(0, 0)
        grid = GridTHW(1, resized.height_px // patch, resized.width_px // patch)
        crop = _centre(resized, Size(grid.w * patch, grid.h * patch))
        if grid.patch_count == 0 or grid.h % merge or grid.w % merge:
            # The checkpoint's processor goes on, and its model then fails to merge.
            raise ItemFault(
                ItemReason.IMAGE_SIZE_INVALID,
                f"Expected whole windows of {merge} x {merge} patches after the crop, got {grid.w} x {grid.h} patches",
            )
    if max(grid.h, grid.w) >= POSITION_LIMIT:
        raise ItemFault(
            ItemReason.IMAGE_SIZE_INVALID,
            f"Expected fewer than {POSITION_LIMIT} patches on one side, got {max(grid.h, grid.w)}",
        )
    return PatchGridPlan(
        original_size=size,
        resized_size=resized,
        token_count=grid.patch_count // (merge * merge),
        padding=padding,
        grid_thw=grid,
        patch_size=patch,
        crop=crop,
    )


def _resized(config: KimiVlConfig, size: Size) -> Size:
    cells = (size.width_px // config.patch_size) * (size.height_px // config.patch_size)
    if cells <= config.in_token_limit:
        return size
    scale = math.sqrt(config.in_token_limit / cells)
    resized = Size(int(size.width_px * scale), int(size.height_px * scale))
    if resized.width_px < 1 or resized.height_px < 1:
        raise ItemFault(
            ItemReason.IMAGE_SIZE_INVALID, f"Expected at least 1 pixel after the resize, got {resized} for {size}"
        )
    return resized


def _centre(resized: Size, kept: Size) -> Crop:
    """torchvision's centre: halves of a pixel go to the even offset."""
    left_px, top_px = (resized.width_px - kept.width_px) / 2, (resized.height_px - kept.height_px) / 2
    return Crop(round(left_px), round(top_px), kept)
