"""From an image's size to its resized size and its crop, in the reference's float64 operations and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.grids import check_sides
from monopath_server.processors.plans import FixedSizePlan
from monopath_server.processors.types import Crop, ResampleKernel, Size

if TYPE_CHECKING:
    from monopath_server.processors.fixed_size.config import FixedSizeConfig

__all__ = ["ExactResize", "Resize", "ShortestEdgeResize", "plan_image"]


@dataclass(frozen=True, slots=True)
class ShortestEdgeResize:
    """The shorter side becomes `shortest_edge` pixels, and the other one follows."""

    shortest_edge: int
    longest_edge: int | None = None
    """No side becomes longer, whatever becomes of the shorter one; None: no bound."""


@dataclass(frozen=True, slots=True)
class ExactResize:
    """Both sides are given, whatever the proportions."""

    height: int
    width: int


Resize: TypeAlias = ShortestEdgeResize | ExactResize


def plan_image(config: FixedSizeConfig, size: Size) -> FixedSizePlan:
    """Plan one image of `size` pixels. Any proportions do: what the crop leaves out costs nothing.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side of no pixel, before or after the resize.
    """
    check_sides(size)
    match config.resize:
        case ExactResize(height, width):
            resized = Size(width, height)
        case ShortestEdgeResize(shortest_edge, longest_edge):
            resized = _by_shortest_edge(size, shortest_edge, longest_edge)
    if resized.width_px < 1 or resized.height_px < 1:
        raise ItemFault(
            ItemReason.IMAGE_SIZE_INVALID, f"Expected at least 1 pixel after the resize, got {resized} for {size}"
        )
    output = config.output_size
    return FixedSizePlan(
        original_size=size,
        resized_size=resized,
        token_count=_token_count(config, output),
        crop=Crop(
            _offset(resized.width_px, output.width_px, config.resample_kernel),
            _offset(resized.height_px, output.height_px, config.resample_kernel),
            output,
        ),
    )


def _by_shortest_edge(size: Size, shortest_edge: int, longest_edge: int | None) -> Size:
    short_px, long_px = sorted((size.width_px, size.height_px))
    exact_px: float = shortest_edge
    if longest_edge is not None and long_px / short_px * shortest_edge > longest_edge:
        exact_px = longest_edge * short_px / long_px
    new_short_px = round(exact_px)
    if short_px == new_short_px:
        return size
    # The product comes first, and of the edge as it was before it was rounded.
    new_long_px = int(exact_px * long_px / short_px)
    portrait = Size(new_short_px, new_long_px)
    return portrait if size.width_px <= size.height_px else Size(new_long_px, new_short_px)


def _offset(resized_px: int, output_px: int, kernel: ResampleKernel) -> int:
    """Where the crop begins. Of an odd number of zeros the PIL backend has one more before, torchvision's behind."""
    left_over_px = resized_px - output_px
    if left_over_px >= 0 or kernel is not ResampleKernel.ATEN_U8:
        return left_over_px // 2
    return -(-left_over_px // 2)


def _token_count(config: FixedSizeConfig, output: Size) -> int:
    if config.patch_size is None:
        return 0
    patches = (output.height_px // config.patch_size) * (output.width_px // config.patch_size)
    return patches + config.class_token_count
