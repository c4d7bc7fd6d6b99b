"""The GLM form of smart_resize: small images are enlarged first, and bounds count all frames of a row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monopath_server.processors.grids import check_aspect_ratio, check_sides, windowed_plan
from monopath_server.processors.types import ImagePlan, Size

if TYPE_CHECKING:
    from monopath_server.processors.glm_vl.config import GlmVlConfig

__all__ = ["plan_image"]


def plan_image(config: GlmVlConfig, size: Size) -> ImagePlan:
    """Plan one image of `size` pixels, in the reference's float64 operations and their order.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, or one more than 200 times the other.
    """
    check_sides(size)
    width_px, height_px = size.width_px, size.height_px
    cell_px = config.patch_size * config.merge_size
    frame_count = config.temporal_patch_size
    if height_px < cell_px or width_px < cell_px:
        enlarges_by = max(cell_px / height_px, cell_px / width_px)
        height_px, width_px = int(height_px * enlarges_by), int(width_px * enlarges_by)
    check_aspect_ratio(Size(width_px, height_px))
    new_height_px = round(height_px / cell_px) * cell_px
    new_width_px = round(width_px / cell_px) * cell_px
    if frame_count * new_height_px * new_width_px > config.max_pixels:
        shrinks_by = math.sqrt((frame_count * height_px * width_px) / config.max_pixels)
        new_height_px = max(cell_px, math.floor(height_px / shrinks_by / cell_px) * cell_px)
        new_width_px = max(cell_px, math.floor(width_px / shrinks_by / cell_px) * cell_px)
    elif frame_count * new_height_px * new_width_px < config.min_pixels:
        grows_by = math.sqrt(config.min_pixels / (frame_count * height_px * width_px))
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
