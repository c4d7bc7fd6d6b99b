"""What the two backends of `transformers`, torchvision's and Pillow's, have in common over the families: RGB first, one
resize, and a normalisation that goes with the resize's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.canonical import channel_form
from monopath_server.processors.family import CanonicalForm, ProcessorConfig
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

__all__ = ["CLIP_MEAN", "CLIP_STD", "HALF", "IMAGENET_MEAN", "IMAGENET_STD", "BackendConfig"]

CLIP_MEAN: ChannelValues = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: ChannelValues = (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN: ChannelValues = (0.485, 0.456, 0.406)
IMAGENET_STD: ChannelValues = (0.229, 0.224, 0.225)
HALF: ChannelValues = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendConfig(ProcessorConfig):
    """A config of a processor that `transformers` has with both backends, which the kernel tells apart."""

    kernels: ClassVar[tuple[ResampleKernel, ...]] = tuple(ResampleKernel)

    image_mean: ChannelValues
    image_std: ChannelValues
    resample_kernel: ResampleKernel = ResampleKernel.ATEN_U8
    """With ATEN_U8 go the normalisation and the padding of the torchvision backend, with the others those of the PIL
    backend, which checkpoints with code of their own have, too."""
    alpha: AlphaPolicy = AlphaPolicy.DROP
    orientation: OrientationPolicy = OrientationPolicy.KEEP

    def _backend_arithmetic(
        self, layout: RowLayout, resample_filter: ResampleFilter = ResampleFilter.BICUBIC
    ) -> PixelArithmetic:
        """The arithmetic for features of this layout."""
        is_torchvision = self.resample_kernel is ResampleKernel.ATEN_U8
        return PixelArithmetic(
            layout=layout,
            image_mean=self.image_mean,
            image_std=self.image_std,
            normalization=Normalization.TORCHVISION if is_torchvision else Normalization.PIL_BACKEND,
            resample_kernel=self.resample_kernel,
            resample_filter=resample_filter,
            # Alpha is gone before the resize: only a device's first launch asks for one window.
            longest_resized_side_px=layout.window_size * max(layout.patch_height_px, layout.patch_width_px),
            background=Background(BackgroundPattern.WHITE) if self.alpha is AlphaPolicy.WHITE else None,
            fill_stage=FillStage.BEFORE_RESIZE,
            reads_color_keys=True,
            composite_rounding=CompositeRounding.NEAREST,
            orientation=self.orientation,
        )

    def _backend_form(self) -> CanonicalForm:
        """The part of the canonical form that these fields are."""
        return {
            "image_mean": channel_form(self.image_mean),
            "image_std": channel_form(self.image_std),
            "resample_kernel": self.resample_kernel.value,
            "alpha": self.alpha.value,
            "orientation": self.orientation.value,
        }
