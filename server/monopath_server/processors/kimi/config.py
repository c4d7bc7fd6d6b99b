"""The typed config of the Kimi image processor and the ranges its fields must lie in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from monopath_server.faults import ConfigViolation
from monopath_server.processors.types import Background, FillStage, OrientationPolicy, ResampleKernel

__all__ = ["ChannelValues", "KimiConfig", "shorten", "validate"]

ChannelValues = tuple[float, float, float]
"""One value each for red, green and blue."""

MAX_PATCH_SIZE = 64
MAX_MERGE_KERNEL_SIZE = 16
MAX_IN_PATCH_LIMIT = 1_048_576
MAX_PATCH_LIMIT_ON_ONE_SIDE = 4_096
MAX_FIXED_OUTPUT_TOKENS = 1_048_576
MAX_CHESSBOARD_SQUARE_SIZE = 65_536

_FLOAT32_MAX = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class KimiConfig:
    """All that decides the bytes and the token count of an image; names are those of `preprocessor_config.json`.

    `transparent_background=None` with `FillStage.BEFORE_RESIZE` is Kimi-K2.5: every image is turned into RGB when it is
    loaded, and an alpha channel is dropped.
    """

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


def validate(config: KimiConfig) -> tuple[ConfigViolation, ...]:
    """Find every value of `config` that is out of range, named as in `preprocessor_config.json`.

    Returns an empty tuple where the config can be served.
    """
    return tuple(_violations(config))


def _violations(config: KimiConfig) -> Iterator[ConfigViolation]:
    yield from _outside("patch_size", config.patch_size, 1, MAX_PATCH_SIZE)
    yield from _outside("merge_kernel_size", config.merge_kernel_size, 1, MAX_MERGE_KERNEL_SIZE)
    yield from _outside("in_patch_limit", config.in_patch_limit, 1, MAX_IN_PATCH_LIMIT)
    yield from _outside("patch_limit_on_one_side", config.patch_limit_on_one_side, 1, MAX_PATCH_LIMIT_ON_ONE_SIDE)
    if config.fixed_output_tokens is not None:
        yield from _outside("fixed_output_tokens", config.fixed_output_tokens, 1, MAX_FIXED_OUTPUT_TOKENS)
    yield from _wrong_constants(config.image_mean, config.image_std)
    background = config.transparent_background
    if background is not None:
        prefix = "transparent_bg_config."
        yield from _outside(
            prefix + "chessboard_square_size", background.chessboard_square_size, 1, MAX_CHESSBOARD_SQUARE_SIZE
        )
        yield from _outside(prefix + "chessboard_white_value", background.chessboard_white_value, 0, 255)
        yield from _outside(prefix + "chessboard_gray_value", background.chessboard_gray_value, 0, 255)


def _wrong_constants(image_mean: ChannelValues, image_std: ChannelValues) -> Iterator[ConfigViolation]:
    wrong_means = [mean for mean in image_mean if not abs(mean) <= _FLOAT32_MAX]
    wrong_stds = [std for std in image_std if not (math.isfinite(std) and std > 0.0)]
    if wrong_means:
        yield ConfigViolation("image_mean", f"Expected finite float32 values, got {wrong_means[0]}")
    if wrong_stds:
        yield ConfigViolation("image_std", f"Expected finite values greater than 0, got {wrong_stds[0]}")
    if wrong_means or wrong_stds:
        return
    for mean, std in zip(image_mean, image_std, strict=True):
        # Pixels are normalised from 0..1; a product of the inverse is what the checkpoint computes.
        if max(abs(0.0 - mean), abs(1.0 - mean)) / std > _FLOAT32_MAX:
            yield ConfigViolation("image_std", f"Expected values that keep normalised pixels finite, got {std}")
            return


def _outside(field: str, value: int, low: int, high: int) -> Iterator[ConfigViolation]:
    if not low <= value <= high:
        yield ConfigViolation(field, f"Expected a whole number from {low} to {high}, got {shorten(value)}")


def shorten(value: object) -> str:
    """Write a value as its author wrote it, cut to a length that is fit for an error text."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        # str() of a huge int raises from 4300 digits on, and nobody reads more than its size anyway.
        return f"a whole number of {value.bit_length()} bits"
    # Half of a surrogate pair is a str of Python's that no wire can carry.
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= 80 else text[:77] + "..."
