"""The typed config of the Kimi-VL image processor."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from monopath_server.faults import ConfigViolation
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.canonical import channel_form
from monopath_server.processors.family import CanonicalForm, ProcessorConfig
from monopath_server.processors.kimi_vl.geometry import POSITION_LIMIT, plan_image
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.ranges import ChannelValues, outside, wrong_constants, wrong_kernel
from monopath_server.processors.types import (
    PILLOW_KERNELS,
    FillStage,
    Normalization,
    OrientationPolicy,
    ResampleKernel,
    RowLayout,
    Size,
)

__all__ = ["KimiVlConfig"]

MAX_PATCH_SIZE = 64
MAX_MERGE_KERNEL_SIZE = 16
MAX_IN_TOKEN_LIMIT = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiVlConfig(ProcessorConfig):
    """All that decides the bytes and the token count of an image; names are those of `preprocessor_config.json`."""

    family: ClassVar[str] = "kimi_vl"
    kernels: ClassVar[tuple[ResampleKernel, ...]] = PILLOW_KERNELS

    patch_size: int
    """Side of a patch in pixels."""
    merge_kernel_size: int
    """Side of the window of patches that becomes one token, in patches."""
    in_token_limit: int
    """Patches, not tokens, that an image may have before it is scaled down."""
    image_mean: ChannelValues
    image_std: ChannelValues
    pad_input: bool = True
    """Whether zeros make the windows whole; without them the image is cropped to whole patches."""
    resample_kernel: ResampleKernel = ResampleKernel.PILLOW_13
    orientation: OrientationPolicy = OrientationPolicy.KEEP

    @functools.cached_property
    def arithmetic(self) -> PixelArithmetic:
        return PixelArithmetic(
            layout=RowLayout(self.patch_size, self.patch_size),
            image_mean=self.image_mean,
            image_std=self.image_std,
            normalization=Normalization.PIL_BACKEND,
            resample_kernel=self.resample_kernel,
            longest_resized_side_px=POSITION_LIMIT * self.patch_size,
            fill_stage=FillStage.AFTER_RESIZE,
            pads_in_own_mode=self.pad_input,
            orientation=self.orientation,
        )

    def plan(self, size: Size) -> PatchGridPlan:
        return plan_image(self, size)

    def violations(self) -> tuple[ConfigViolation, ...]:
        return tuple(self._violations())

    def canonical_form(self) -> CanonicalForm:
        # Only where it is not the usual one: digests are older than the choice.
        crops = {} if self.pad_input else {"pad_input": False}
        return {
            **crops,
            "patch_size": self.patch_size,
            "merge_kernel_size": self.merge_kernel_size,
            "in_token_limit": self.in_token_limit,
            "image_mean": channel_form(self.image_mean),
            "image_std": channel_form(self.image_std),
            "resample_kernel": self.resample_kernel.value,
            "orientation": self.orientation.value,
        }

    def _violations(self) -> Iterator[ConfigViolation]:
        yield from outside("patch_size", self.patch_size, 1, MAX_PATCH_SIZE)
        yield from outside("merge_kernel_size", self.merge_kernel_size, 1, MAX_MERGE_KERNEL_SIZE)
        yield from outside("in_token_limit", self.in_token_limit, 1, MAX_IN_TOKEN_LIMIT)
        yield from wrong_constants(self.image_mean, self.image_std)
        if self.resample_kernel not in self.kernels:
            yield wrong_kernel(self.kernels, self.resample_kernel)
