"""What single config values may be, whatever the family: ranges, and texts that name what was found."""

from __future__ import annotations

import math
from collections.abc import Iterator

from monopath_server.faults import ConfigViolation
from monopath_server.processors.types import ResampleKernel

__all__ = ["ChannelValues", "outside", "shorten", "wrong_constants", "wrong_kernel"]

ChannelValues = tuple[float, float, float]
"""One value each for red, green and blue."""

_FLOAT32_MAX = 3.4028234663852886e38


def outside(field: str, value: int, low: int, high: int) -> Iterator[ConfigViolation]:
    """Yield a violation where `value` is not a number from `low` to `high`."""
    if not low <= value <= high:
        yield ConfigViolation(field, f"Expected a whole number from {low} to {high}, got {shorten(value)}")


def wrong_constants(image_mean: ChannelValues, image_std: ChannelValues) -> Iterator[ConfigViolation]:
    """Yield a violation for constants that would not give finite float32 values."""
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


def wrong_kernel(known: tuple[ResampleKernel, ...], found: ResampleKernel) -> ConfigViolation:
    """The violation of a resize arithmetic that the family's own processors never had."""
    return ConfigViolation("resample_kernel", f"Expected one of {', '.join(known)}, got {found}")


def shorten(value: object) -> str:
    """Write a value as its author wrote it, cut to a length that is fit for an error text."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        # str() of a huge int raises from 4300 digits on, and nobody reads more than its size anyway.
        return f"a whole number of {value.bit_length()} bits"
    # Half of a surrogate pair is a str of Python's that no wire can carry.
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= 80 else text[:77] + "..."
