"""The typed config of the Kimi image processor and the ranges its fields must lie in."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from monopath_server.faults import ConfigViolation
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.canonical import background_form, channel_form
from monopath_server.processors.family import CanonicalForm, ProcessorConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.ranges import ChannelValues, outside, wrong_constants, wrong_kernel
from monopath_server.processors.types import (
    PILLOW_KERNELS,
    Background,
    FillStage,
    Normalization,
    OrientationPolicy,
    ResampleKernel,
    RowLayout,
    Size,
)

__all__ = ["KimiConfig", "validate"]

MAX_PATCH_SIZE = 64
MAX_MERGE_KERNEL_SIZE = 16
MAX_IN_PATCH_LIMIT = 1_048_576
MAX_PATCH_LIMIT_ON_ONE_SIDE = 4_096
MAX_FIXED_OUTPUT_TOKENS = 1_048_576
MAX_CHESSBOARD_SQUARE_SIZE = 65_536


@dataclass(frozen=True, slots=True)
class KimiConfig(ProcessorConfig):
    """All that decides the bytes and the token count of an image; names are those of `preprocessor_config.json`.

    `transparent_background=None` with `FillStage.BEFORE_RESIZE` is Kimi-K2.5: every image is turned into RGB when it is
    loaded, and an alpha channel is dropped.
    """

    family: ClassVar[str] = "kimi"
    kernels: ClassVar[tuple[ResampleKernel, ...]] = PILLOW_KERNELS

    patch_size: int
    """Side of a patch in pixels."""
    merge_kernel_size: int
    """Side of the window of patches that becomes one token, in patches."""
    in_patch_limit: int
    """Patches an image may have before it is scaled down."""
    patch_limit_on_one_side: int
    """Patches that either side may have."""
    image_mean: ChannelValues
    image_std: ChannelValues
    fixed_output_tokens: int | None = None
    """Token count that replaces the grid's own; an image whose grid contradicts it is refused."""
    transparent_background: Background | None = None
    transparent_fill_stage: FillStage = FillStage.BEFORE_RESIZE
    resample_kernel: ResampleKernel = ResampleKernel.PILLOW_13
    orientation: OrientationPolicy = OrientationPolicy.KEEP

    @functools.cached_property
    def arithmetic(self) -> PixelArithmetic:
        return PixelArithmetic(
            layout=RowLayout(self.patch_size, self.patch_size),
            image_mean=self.image_mean,
            image_std=self.image_std,
            normalization=Normalization.NUMPY,
            resample_kernel=self.resample_kernel,
            longest_resized_side_px=self.patch_limit_on_one_side * self.patch_size,
            background=self.transparent_background,
            fill_stage=self.transparent_fill_stage,
            orientation=self.orientation,
        )

    def plan(self, size: Size) -> PatchGridPlan:
        return plan_image(self, size)

    def violations(self) -> tuple[ConfigViolation, ...]:
        return validate(self)

    def canonical_form(self) -> CanonicalForm:
        return {
            "patch_size": self.patch_size,
            "merge_kernel_size": self.merge_kernel_size,
            "in_patch_limit": self.in_patch_limit,
            "patch_limit_on_one_side": self.patch_limit_on_one_side,
            "fixed_output_tokens": self.fixed_output_tokens,
            "image_mean": channel_form(self.image_mean),
            "image_std": channel_form(self.image_std),
            "transparent_background": background_form(self.transparent_background),
            "transparent_fill_stage": self.transparent_fill_stage.value,
            "resample_kernel": self.resample_kernel.value,
            "orientation": self.orientation.value,
        }


def validate(config: KimiConfig) -> tuple[ConfigViolation, ...]:
    """Find every value of `config` that is out of range, named as in `preprocessor_config.json`.

    Returns an empty tuple where the config can be served.
    """
    return tuple(_violations(config))


def _violations(config: KimiConfig) -> Iterator[ConfigViolation]:
    yield from outside("patch_size", config.patch_size, 1, MAX_PATCH_SIZE)
    yield from outside("merge_kernel_size", config.merge_kernel_size, 1, MAX_MERGE_KERNEL_SIZE)
    yield from outside("in_patch_limit", config.in_patch_limit, 1, MAX_IN_PATCH_LIMIT)
    yield from outside("patch_limit_on_one_side", config.patch_limit_on_one_side, 1, MAX_PATCH_LIMIT_ON_ONE_SIDE)
    if config.fixed_output_tokens is not None:
        yield from outside("fixed_output_tokens", config.fixed_output_tokens, 1, MAX_FIXED_OUTPUT_TOKENS)
    yield from wrong_constants(config.image_mean, config.image_std)
    background = config.transparent_background
    if background is not None:
        prefix = "transparent_bg_config."
        yield from outside(
            prefix + "chessboard_square_size", background.chessboard_square_size, 1, MAX_CHESSBOARD_SQUARE_SIZE
        )
        yield from outside(prefix + "chessboard_white_value", background.chessboard_white_value, 0, 255)
        yield from outside(prefix + "chessboard_gray_value", background.chessboard_gray_value, 0, 255)
    if config.resample_kernel not in config.kernels:
        yield wrong_kernel(config.kernels, config.resample_kernel)
