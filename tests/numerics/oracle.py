"""The checkpoint's processor, written once more from Pillow's and numpy's own operations. No code of the server's.

Pillow resizes (one axis per call, so that any pass order can be asked for), numpy does the rest with whole arrays.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import (
    Background,
    BackgroundPattern,
    ElementType,
    FillStage,
    ImagePlan,
    ResampleKernel,
)

__all__ = ["expected_rows", "fill", "normalized_values", "resize"]


def expected_rows(
    image: Image.Image, plan: ImagePlan, config: KimiConfig, element_type: ElementType
) -> NDArray[np.uint8]:
    """Return the bytes of `pixel_values`, flat."""
    assert isinstance(plan, PatchGridPlan)
    target = (plan.resized_size.width_px, plan.resized_size.height_px)
    if config.transparent_fill_stage is FillStage.BEFORE_RESIZE:
        resized = resize(Image.fromarray(fill(image, config.transparent_background)), target, config.resample_kernel)
        pixels = np.asarray(resized)
    else:
        pixels = fill(resize(image, target, config.resample_kernel), config.transparent_background)
    height_px = plan.resized_size.height_px + plan.padding.bottom_px
    width_px = plan.resized_size.width_px + plan.padding.right_px
    canvas = np.zeros((height_px, width_px, 3), np.uint8)
    canvas[: pixels.shape[0], : pixels.shape[1]] = pixels
    side = config.patch_size
    elements = _elements(canvas, config, element_type)
    grid = elements.reshape(height_px // side, side, width_px // side, side, 3)
    return np.ascontiguousarray(grid.transpose(0, 2, 4, 1, 3)).reshape(-1).view(np.uint8)


def resize(image: Image.Image, target: tuple[int, int], kernel: ResampleKernel) -> Image.Image:
    """Resize in the image's own mode, one axis per call."""
    if image.size == target:
        return image
    if image.mode in ("1", "P"):
        return image.resize(target, Image.Resampling.NEAREST)
    if image.mode in ("RGBA", "LA"):
        premultiplied = image.convert({"RGBA": "RGBa", "LA": "La"}[image.mode])
        return resize(premultiplied, target, kernel).convert(image.mode)
    (width_px, height_px), (new_width_px, new_height_px) = image.size, target
    is_vertical_first = {
        ResampleKernel.PILLOW_11: False,
        ResampleKernel.PILLOW_12_2: height_px > 100 * width_px and new_height_px < height_px,
        ResampleKernel.PILLOW_13: height_px - new_height_px > max(0, 2 * (width_px - new_width_px)),
    }[kernel]
    between = (width_px, new_height_px) if is_vertical_first else (new_width_px, height_px)
    return image.resize(between, Image.Resampling.BICUBIC).resize(target, Image.Resampling.BICUBIC)


def fill(image: Image.Image, background: Background | None) -> NDArray[np.uint8]:
    """Turn an image into RGB the way the checkpoint does: uint8 [height, width, 3]."""
    has_alpha = "A" in image.getbands() or "transparency" in image.info
    if background is None or image.mode == "RGB" or not has_alpha:
        return np.asarray(_without_key(image).convert("RGB"))
    rgba = np.asarray(image.convert("RGBA"))
    alpha = (rgba[..., 3:].astype(np.float32) / np.float32(255)).astype(np.float32)
    board = _board(background, *rgba.shape[:2]).astype(np.float32)
    blended = alpha * rgba[..., :3].astype(np.float32) + (np.float32(1) - alpha) * board
    return blended.astype(np.uint8)


def _without_key(image: Image.Image) -> Image.Image:
    """Drop the colour key, which Pillow warns about and RGB does not show."""
    image = image.copy()
    image.info.pop("transparency", None)
    return image


def _board(background: Background, height_px: int, width_px: int) -> NDArray[np.uint8]:
    plain = {BackgroundPattern.WHITE: 255, BackgroundPattern.BLACK: 0, BackgroundPattern.GRAY: 128}
    if background.pattern in plain:
        return np.full((height_px, width_px, 1), plain[background.pattern], np.uint8)
    board = np.empty((height_px, width_px, 1), np.uint8)
    side = background.chessboard_square_size
    for top in range(0, height_px, side):
        for left in range(0, width_px, side):
            is_white = ((top + left) // side % 2 == 0) == background.chessboard_square_on_top_left
            value = background.chessboard_white_value if is_white else background.chessboard_gray_value
            board[top : top + side, left : left + side] = value
    return board


def normalized_values(pixels: NDArray[np.uint8], config: KimiConfig) -> NDArray[np.float32]:
    """Normalise uint8 [..., 3] with numpy's in-place operations, as the checkpoint does."""
    values = (pixels / 255.0).astype(np.float32)
    values -= np.array(config.image_mean)
    values *= 1.0 / np.array(config.image_std, dtype=np.float64)
    return values


def _elements(pixels: NDArray[np.uint8], config: KimiConfig, element_type: ElementType) -> NDArray[Any]:
    types: dict[ElementType, Any] = {
        ElementType.FLOAT32: np.float32,
        ElementType.FLOAT16: np.float16,
        ElementType.BFLOAT16: ml_dtypes.bfloat16,
    }
    if element_type is ElementType.UINT8:
        return pixels
    with np.errstate(over="ignore"):
        return normalized_values(pixels, config).astype(types[element_type])
