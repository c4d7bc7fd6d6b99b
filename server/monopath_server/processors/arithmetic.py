"""What the transforms need to know of a config: everything that decides an image's bytes, apart from its plan."""

from __future__ import annotations

from dataclasses import dataclass

from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import (
    Background,
    CompositeRounding,
    FillStage,
    Normalization,
    OrientationPolicy,
    ResampleFilter,
    ResampleKernel,
    RowLayout,
)

__all__ = ["PixelArithmetic"]


@dataclass(frozen=True, slots=True)
class PixelArithmetic:
    """The arithmetic of one config, in words that all families share."""

    layout: RowLayout
    """What a row of features holds."""
    image_mean: ChannelValues
    image_std: ChannelValues
    normalization: Normalization
    """In which order, and with which roundings, a pixel is normalised."""
    resample_kernel: ResampleKernel
    longest_resized_side_px: int
    """No resized image with an alpha channel is longer: the device has tables of this length for its background."""
    resample_filter: ResampleFilter = ResampleFilter.BICUBIC
    background: Background | None = None
    """What transparent pixels are laid upon; None: alpha is dropped."""
    reads_color_keys: bool = False
    """Whether an RGB image whose file names a transparent colour is laid upon the background, too."""
    fill_stage: FillStage = FillStage.BEFORE_RESIZE
    composite_rounding: CompositeRounding = CompositeRounding.TRUNCATED
    pads_in_own_mode: bool = False
    """Whether an image that is resized before it becomes RGB is padded before that, too: with its mode's own zero."""
    orientation: OrientationPolicy = OrientationPolicy.KEEP
