"""What the grids of families without padding have in common: whole windows of patches, each of them one token."""

from __future__ import annotations

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import GridTHW, Padding, Size

__all__ = ["MAX_ASPECT_RATIO", "check_aspect_ratio", "check_sides", "windowed_plan"]

MAX_ASPECT_RATIO = 200


def check_sides(size: Size) -> None:
    """Raise `ItemFault` IMAGE_SIZE_INVALID for a side of no pixel."""
    if size.width_px < 1 or size.height_px < 1:
        raise ItemFault(ItemReason.IMAGE_SIZE_INVALID, f"Expected sides of at least 1 pixel, got {size}")


def check_aspect_ratio(size: Size) -> None:
    """Raise `ItemFault` IMAGE_SIZE_INVALID for an image more than 200 times as long as wide; 200 itself passes."""
    longest, shortest = max(size.width_px, size.height_px), min(size.width_px, size.height_px)
    if longest / shortest > MAX_ASPECT_RATIO:
        raise ItemFault(
            ItemReason.IMAGE_SIZE_INVALID,
            f"Expected a side at most {MAX_ASPECT_RATIO} times the other, got {longest / shortest} for {size} pixels",
        )


def windowed_plan(
    original: Size, resized: Size, canvas: Size, *, patch_size: int, merge_size: int, temporal_copies: int
) -> PatchGridPlan:
    """Plan rows that are grouped by windows, over a canvas of whole windows."""
    grid = GridTHW(1, canvas.height_px // patch_size, canvas.width_px // patch_size)
    return PatchGridPlan(
        original_size=original,
        resized_size=resized,
        padding=Padding(canvas.width_px - resized.width_px, canvas.height_px - resized.height_px),
        grid_thw=grid,
        token_count=grid.patch_count // (merge_size * merge_size),
        patch_size=patch_size,
        temporal_copies=temporal_copies,
        window_size=merge_size,
    )
