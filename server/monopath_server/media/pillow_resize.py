"""Pillow's own resize with the order of its two passes forced, whichever Pillow is installed."""

from __future__ import annotations

from PIL import Image

from monopath_server.processors.types import ResampleKernel, Size
from monopath_server.transforms.pass_order import vertical_first

__all__ = ["resize_in_own_mode"]

_NEAREST_MODES = frozenset(("1", "P"))


def resize_in_own_mode(image: Image.Image, target: Size, kernel: ResampleKernel) -> Image.Image:
    """Resize with `BICUBIC` in the image's own colour mode; palette and 1-bit images are picked from, not filtered.

    One call of Pillow's `resize` per axis: a call that changes one side only has no order to choose. Returns `image`
    itself where the size is right already.

    Raises:
        ValueError: Pillow cannot resize this colour mode.
    """
    source = Size(*image.size)
    if source == target:
        return image
    if image.mode in _NEAREST_MODES:
        return image.resize((target.width_px, target.height_px), Image.Resampling.NEAREST)
    if vertical_first(kernel, source, target):
        between = (source.width_px, target.height_px)
    else:
        between = (target.width_px, source.height_px)
    bicubic = Image.Resampling.BICUBIC
    return image.resize(between, bicubic).resize((target.width_px, target.height_px), bicubic)
