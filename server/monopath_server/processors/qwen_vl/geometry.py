"""smart_resize: from an image's size to the nearest whole windows whose area is within the bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monopath_server.processors.grids import check_aspect_ratio, check_sides, windowed_plan
from monopath_server.processors.types import ImagePlan, Size

if TYPE_CHECKING:
    from monopath_server.processors.qwen_vl.config import QwenVlConfig

__all__ = ["plan_image"]


def plan_image(config: QwenVlConfig, size: Size) -> ImagePlan:
    """Plan one image of `size` pixels.

    Every float64 operation and its order is the reference's and decides the token count: 19 x 19 pixels become 84 x 84
    where exact arithmetic says 56 x 56. Python's `round` is half to even, as the reference's.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, or one more than 200 times the other.
    """
    check_sides(size)
    check_aspect_ratio(size)
    width_px, height_px = size.width_px, size.height_px
    cell_px = config.patch_size * config.merge_size
    new_height_px = round(height_px / cell_px) * cell_px
    new_width_px = round(width_px / cell_px) * cell_px
    if new_height_px * new_width_px > config.max_pixels:
        shrinks_by = math.sqrt((height_px * width_px) / config.max_pixels)
        new_height_px = max(cell_px, math.floor(height_px / shrinks_by / cell_px) * cell_px)
        new_width_px = max(cell_px, math.floor(width_px / shrinks_by / cell_px) * cell_px)
    elif new_height_px * new_width_px < config.min_pixels:
        grows_by = math.sqrt(config.min_pixels / (height_px * width_px))
        new_height_px = math.ceil(height_px * grows_by / cell_px) * cell_px
        new_width_px = math.ceil(width_px * grows_by / cell_px) * cell_px
    resized = Size(new_width_px, new_height_px)
    return windowed_plan(
        size,
        resized,
        resized,
        patch_size=config.patch_size,
        merge_size=config.merge_size,
        temporal_copies=config.temporal_patch_size,
    )
