"""The GLM form of smart_resize: small images are enlarged first, and bounds count all frames of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monopath_server.processors.area_bounds import smart_resized
from monopath_server.processors.grids import check_aspect_ratio, check_sides, windowed_plan
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import Size

if TYPE_CHECKING:
    from monopath_server.processors.glm_vl.config import GlmVlConfig

__all__ = ["plan_image"]


def plan_image(config: GlmVlConfig, size: Size) -> PatchGridPlan:
    """Plan one image of `size` pixels, in the reference's float64 operations and their order.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, or one more than 200 times the other.
    """
    check_sides(size)
    width_px, height_px = size.width_px, size.height_px
    cell_px = config.cell_px
    if height_px < cell_px or width_px < cell_px:
        enlarges_by = max(cell_px / height_px, cell_px / width_px)
        height_px, width_px = int(height_px * enlarges_by), int(width_px * enlarges_by)
    enlarged = Size(width_px, height_px)
    check_aspect_ratio(enlarged)
    resized = smart_resized(config, enlarged, frame_count=config.temporal_patch_size)
    return windowed_plan(
        size,
        resized,
        resized,
        patch_size=config.patch_size,
        merge_size=config.merge_size,
        temporal_copies=config.temporal_patch_size,
    )
