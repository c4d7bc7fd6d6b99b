"""What the families of `transformers` share: RGB first, a resize, and the normalisation that goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference.color import drop_alpha, to_rgba
from monopath_server.reference.config import ResampleKernelName
from monopath_server.reference.geometry import vertical_pass_first
from monopath_server.reference.resample import resample_pixels

__all__ = ["AlphaName", "normalized", "resized_pixels", "rgb_pixels", "without_backend"]

AlphaName = Literal["DROP", "WHITE"]


def without_backend(checkpoint: Mapping[str, Any]) -> str:
    """The name of the processor's class as the file has it, without what names a backend."""
    name = checkpoint.get("image_processor_type") or checkpoint.get("feature_extractor_type") or ""
    return str(name).removesuffix("Fast").removesuffix("Pil")


def rgb_pixels(image: Image.Image, alpha: AlphaName) -> NDArray[np.uint8]:
    """RGB pixels [height, width, 3] of an image in any mode."""
    is_transparent = "A" in image.getbands() or "transparency" in image.info
    return _on_white(to_rgba(image)) if alpha == "WHITE" and is_transparent else drop_alpha(image)


def resized_pixels(
    pixels: NDArray[np.uint8], target: tuple[int, int], kernel: ResampleKernelName, *, is_bilinear: bool = False
) -> NDArray[np.uint8]:
    """Pixels [height, width, 3] of the size `target` (width, height)."""
    source = (pixels.shape[1], pixels.shape[0])
    return resample_pixels(
        pixels,
        target,
        has_alpha=False,
        vertical_first=vertical_pass_first(kernel, source, target),
        is_int16=kernel == "ATEN_U8",
        is_bilinear=is_bilinear,
    )


def normalized(
    pixels: NDArray[np.uint8],
    image_mean: tuple[float, float, float],
    image_std: tuple[float, float, float],
    kernel: ResampleKernelName,
) -> NDArray[np.float32]:
    """Normalises uint8 pixels [..., 3] as the backend does whose resize it is."""
    mean, std = np.array(image_mean, np.float32), np.array(image_std, np.float32)
    if kernel == "ATEN_U8":
        values = pixels.astype(np.float32)
        mean, std = mean * np.float32(255), std * np.float32(255)
    else:
        values = (pixels.astype(np.float64) * (1 / 255)).astype(np.float32)
    normal: NDArray[np.float32] = (values - mean) / std
    return normal


def _on_white(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The nearest whole number, as both of Pillow's ways to composite have it."""
    alpha, color = rgba[..., 3:].astype(np.int64), rgba[..., :3].astype(np.int64)
    return ((color * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
