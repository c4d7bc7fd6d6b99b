"""What the two backends of `transformers`, torchvision's and Pillow's, have in common over the families: RGB first, one
resize, and a normalisation that goes with the resize's arithmetic."""

from __future__ import annotations

from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import (
    AlphaPolicy,
    Background,
    BackgroundPattern,
    CompositeRounding,
    FillStage,
    Normalization,
    OrientationPolicy,
    ResampleFilter,
    ResampleKernel,
    RowLayout,
)

__all__ = ["CLIP_MEAN", "CLIP_STD", "HALF", "IMAGENET_MEAN", "IMAGENET_STD", "backend_arithmetic"]

CLIP_MEAN: ChannelValues = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: ChannelValues = (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN: ChannelValues = (0.485, 0.456, 0.406)
IMAGENET_STD: ChannelValues = (0.229, 0.224, 0.225)
HALF: ChannelValues = (0.5, 0.5, 0.5)


def backend_arithmetic(
    layout: RowLayout,
    *,
    image_mean: ChannelValues,
    image_std: ChannelValues,
    resample_kernel: ResampleKernel,
    alpha: AlphaPolicy,
    orientation: OrientationPolicy,
    resample_filter: ResampleFilter = ResampleFilter.BICUBIC,
) -> PixelArithmetic:
    """Return the arithmetic of a backend: ATEN_U8 is torchvision's, any other Pillow's."""
    is_torchvision = resample_kernel is ResampleKernel.ATEN_U8
    return PixelArithmetic(
        layout=layout,
        image_mean=image_mean,
        image_std=image_std,
        normalization=Normalization.TORCHVISION if is_torchvision else Normalization.PIL_BACKEND,
        resample_kernel=resample_kernel,
        resample_filter=resample_filter,
        # Alpha is gone before the resize: only a device's first launch asks for one window.
        longest_resized_side_px=layout.window_size * max(layout.patch_height_px, layout.patch_width_px),
        background=Background(BackgroundPattern.WHITE) if alpha is AlphaPolicy.WHITE else None,
        fill_stage=FillStage.BEFORE_RESIZE,
        reads_color_keys=True,
        composite_rounding=CompositeRounding.NEAREST,
        orientation=orientation,
    )
