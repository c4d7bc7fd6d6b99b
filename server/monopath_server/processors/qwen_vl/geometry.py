"""smart_resize: from an image's size to the nearest whole windows whose area is within the bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monopath_server.processors.area_bounds import smart_resized
from monopath_server.processors.grids import check_aspect_ratio, check_sides, windowed_plan
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import Size

if TYPE_CHECKING:
    from monopath_server.processors.qwen_vl.config import QwenVlConfig

__all__ = ["plan_image"]


def plan_image(config: QwenVlConfig, size: Size) -> PatchGridPlan:
    """Plan one image of `size` pixels.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, or one more than 200 times the other.
    """
    check_sides(size)
    check_aspect_ratio(size)
    resized = smart_resized(config, size, frame_count=1)
    return windowed_plan(
        size,
        resized,
        resized,
        patch_size=config.patch_size,
        merge_size=config.merge_size,
        temporal_copies=config.temporal_patch_size,
    )
