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
)

__all__ = ["PixelArithmetic"]


@dataclass(frozen=True, slots=True)
class PixelArithmetic:
    """The arithmetic of one config, in words that all families share."""

    patch_size: int
    """Side of a patch in pixels."""
    image_mean: ChannelValues
    image_std: ChannelValues
    normalization: Normalization
    """In which order, and with which roundings, a pixel is normalised."""
    resample_kernel: ResampleKernel
    longest_resized_side_px: int
    """No resized image with an alpha channel is longer: the device has tables of this length for its background."""
    resample_filter: ResampleFilter = ResampleFilter.BICUBIC
    window_size: int = 1
    """Rows of patches are grouped by square windows of this many patches a side; 1: raster order."""
    temporal_copies: int = 1
    """How often a row of features has each of its patch's channels, one copy behind the other."""
    background: Background | None = None
    """What transparent pixels are laid upon; None: alpha is dropped."""
    reads_color_keys: bool = False
    """Whether an RGB image whose file names a transparent colour is laid upon the background, too."""
    fill_stage: FillStage = FillStage.BEFORE_RESIZE
    composite_rounding: CompositeRounding = CompositeRounding.TRUNCATED
    pads_in_own_mode: bool = False
    """Whether an image that is resized before it becomes RGB is padded before that, too: with its mode's own zero."""
    orientation: OrientationPolicy = OrientationPolicy.KEEP

    @property
    def row_elements(self) -> int:
        """Elements of one row of features."""
        return 3 * self.temporal_copies * self.patch_size * self.patch_size
