"""From an image's size to a canvas within the bounds of tokens, and to the content that is laid upon it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.grids import check_sides, windowed_plan
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import ResampleKernel, Size

if TYPE_CHECKING:
    from monopath_server.processors.glm_next.config import GlmNextConfig

__all__ = ["cell_px", "plan_image"]


def cell_px(config: GlmNextConfig) -> int:
    """Side of what a canvas is a multiple of. The PIL backend ignores the expand factor; torchvision's does not."""
    expand = config.patch_expand_factor if config.resample_kernel is ResampleKernel.ATEN_U8 else 1
    return config.patch_size * config.merge_size * expand


def plan_image(config: GlmNextConfig, size: Size) -> PatchGridPlan:
    """Plan one image of `size` pixels, in the reference's float64 operations and their order. Any proportions do.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, or where one window is more than the bound.
    """
    check_sides(size)
    cell, frame_count = cell_px(config), config.temporal_patch_size
    unit_px = frame_count * cell * cell
    min_px, max_px = config.min_image_tokens * unit_px, config.max_image_tokens * unit_px
    width_px, height_px = size.width_px, size.height_px

    def up(length_px: int) -> int:
        return math.ceil(length_px / cell) * cell

    canvas_height_px, canvas_width_px = up(height_px), up(width_px)
    if frame_count * canvas_height_px * canvas_width_px < min_px:
        grows_by = math.sqrt(min_px / (frame_count * height_px * width_px))
        canvas_height_px = up(max(1, math.ceil(height_px * grows_by)))
        canvas_width_px = up(max(1, math.ceil(width_px * grows_by)))
    if frame_count * canvas_height_px * canvas_width_px > max_px:
        canvas_height_px, canvas_width_px = cell, cell
        low, high = 1, height_px
        while low <= high:
            scaled_height_px = (low + high) // 2
            scaled_width_px = max(1, math.floor((width_px * scaled_height_px) / height_px))
            if frame_count * up(scaled_height_px) * up(scaled_width_px) <= max_px:
                canvas_height_px, canvas_width_px = up(scaled_height_px), up(scaled_width_px)
                low = scaled_height_px + 1
            else:
                high = scaled_height_px - 1
    if frame_count * canvas_height_px * canvas_width_px > max_px:
        raise ItemFault(
            ItemReason.IMAGE_SIZE_INVALID,
            f"Expected bounds that one window of {cell} x {cell} pixels fits into, got {max_px // frame_count} pixels",
        )
    scale = min(canvas_height_px / height_px, canvas_width_px / width_px)
    if frame_count * height_px * width_px >= min_px:
        scale = min(1.0, scale)
    content = Size(
        max(1, min(canvas_width_px, math.floor(width_px * scale))),
        max(1, min(canvas_height_px, math.floor(height_px * scale))),
    )
    return windowed_plan(
        size,
        content,
        Size(canvas_width_px, canvas_height_px),
        patch_size=config.patch_size,
        merge_size=config.merge_size,
        temporal_copies=frame_count,
    )
