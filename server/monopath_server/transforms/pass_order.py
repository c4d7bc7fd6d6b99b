"""Which axis is resized first: the one thing that Pillow's three resample kernels differ in."""

from __future__ import annotations

from monopath_server.processors.types import ResampleKernel, Size

__all__ = ["vertical_first"]


def vertical_first(kernel: ResampleKernel, source: Size, target: Size) -> bool:
    """Tell whether the vertical pass comes first. Only meaningful where both sides change.

    The rules are those of Pillow's own releases (python-pillow/Pillow #9524 and #9549), and torchvision's.
    """
    match kernel:
        case ResampleKernel.PILLOW_11 | ResampleKernel.ATEN_U8:
            return False
        case ResampleKernel.PILLOW_12_2:
            return source.height_px > 100 * source.width_px and target.height_px < source.height_px
        case ResampleKernel.PILLOW_13:
            height_shrinks_by_px = source.height_px - target.height_px
            return height_shrinks_by_px > 0 and height_shrinks_by_px > 2 * (source.width_px - target.width_px)
