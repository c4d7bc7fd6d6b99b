"""From an image in any mode to RGB pixels of the planned size: resize, convert and fill, in the checkpoint's order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference.config import ReferenceBackground, ReferenceConfig, ResampleKernelName
from monopath_server.reference.geometry import ReferencePlan, vertical_pass_first
from monopath_server.reference.resample import resample_pixels

__all__ = ["composite_onto", "drop_alpha", "resize_image", "resize_plain", "resized_rgb", "to_rgba"]

_PLAIN_MODES = ("L", "LA", "RGB", "RGBA")


def resized_rgb(image: Image.Image, plan: ReferencePlan, config: ReferenceConfig) -> NDArray[np.uint8]:
    """Returns the RGB pixels [height, width, 3] of `plan.resized_size`, before the padding."""
    if config.fill_stage == "before_resize":
        rgb = _to_rgb(image, config.background)
        return resize_plain(rgb, plan, config.resample_kernel, has_alpha=False)
    return _to_rgb(resize_image(image, plan, config.resample_kernel), config.background)


def resize_image(image: Image.Image, plan: ReferencePlan, kernel: ResampleKernelName) -> Image.Image:
    """Resizes an image in its own mode; an image that already has its size is not touched."""
    if image.size == plan.resized_size:
        return image
    if image.mode in _PLAIN_MODES:
        pixels = np.asarray(image)
        height_px, width_px = pixels.shape[:2]
        planes = pixels.reshape(height_px, width_px, -1)
        resized = resize_plain(planes, plan, kernel, has_alpha=image.mode in ("LA", "RGBA"))
        result = Image.fromarray(resized[..., 0] if resized.shape[2] == 1 else resized)
        result.info = dict(image.info)
        return result
    if image.mode in ("1", "P"):
        # Indices and bits cannot be blended: Pillow takes the nearest pixel whatever filter is asked for.
        return image.resize(plan.resized_size, Image.Resampling.NEAREST)
    # Here the filter itself is Pillow's; only the order of its two passes is ours, one call an axis.
    new_width_px, new_height_px = plan.resized_size
    if vertical_pass_first(kernel, image.size, plan.resized_size):
        between = (image.width, new_height_px)
    else:
        between = (new_width_px, image.height)
    return image.resize(between, Image.Resampling.BICUBIC).resize(plan.resized_size, Image.Resampling.BICUBIC)


def resize_plain(
    pixels: NDArray[np.uint8], plan: ReferencePlan, kernel: ResampleKernelName, *, has_alpha: bool
) -> NDArray[np.uint8]:
    source = (pixels.shape[1], pixels.shape[0])
    vertical_first = vertical_pass_first(kernel, source, plan.resized_size)
    return resample_pixels(
        pixels,
        plan.resized_size,
        has_alpha=has_alpha,
        vertical_first=vertical_first,
        is_int16=kernel == "ATEN_U8",
    )


def _to_rgb(image: Image.Image, background: ReferenceBackground | None) -> NDArray[np.uint8]:
    """Converts to RGB pixels [height, width, 3]; transparency is laid upon `background` where there is one."""
    if image.mode == "RGB":
        # Also with a transparent colour named in the file: the checkpoint looks at the mode alone.
        return np.asarray(image)
    is_transparent = "A" in image.getbands() or "transparency" in image.info
    if background is None or not is_transparent:
        return drop_alpha(image)
    return composite_onto(background, to_rgba(image))


def drop_alpha(image: Image.Image) -> NDArray[np.uint8]:
    if image.mode in _PLAIN_MODES:
        pixels = np.asarray(image)
        match image.mode:
            case "L":
                return np.repeat(pixels[..., None], 3, axis=2)
            case "LA":
                return np.repeat(pixels[..., :1], 3, axis=2)
            case _:
                return pixels[..., :3]
    if "transparency" in image.info:
        # The colours are the same without it, and Pillow does not warn.
        image = image.copy()
        del image.info["transparency"]
    return np.asarray(image.convert("RGB"))


def to_rgba(image: Image.Image) -> NDArray[np.uint8]:
    pixels = np.asarray(image)
    match image.mode:
        case "RGBA":
            return pixels
        case "LA":
            return pixels[..., [0, 0, 0, 1]]
        case "L":
            # One grey level is named transparent; after a resize only pixels of exactly that level still are.
            key = image.info["transparency"] & 0xFF
            alpha = np.where(pixels == key, 0, 255).astype(np.uint8)
            return np.stack([pixels, pixels, pixels, alpha], axis=2)
        case _:
            return np.asarray(image.convert("RGBA"))


def _background_pixels(background: ReferenceBackground, width_px: int, height_px: int) -> NDArray[np.uint8]:
    """The background as grey levels [height, width, 1]."""
    plain = {"white": 255, "black": 0, "gray": 128}
    if background.pattern in plain:
        return np.full((height_px, width_px, 1), plain[background.pattern], np.uint8)
    square_px = background.chessboard_square_size
    rows = np.arange(height_px)[:, None] // square_px
    columns = np.arange(width_px)[None, :] // square_px
    gray_parity = 1 if background.chessboard_square_on_top_left else 0
    is_gray = (rows + columns) % 2 == gray_parity
    board = np.where(is_gray, background.chessboard_gray_value, background.chessboard_white_value)
    return board.astype(np.uint8)[..., None]


def composite_onto(background: ReferenceBackground, rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lays RGBA pixels [height, width, 4] upon the background in float32, and drops the fraction."""
    height_px, width_px = rgba.shape[:2]
    alpha = rgba[..., 3:].astype(np.float32) / np.float32(255.0)
    color = rgba[..., :3].astype(np.float32)
    behind = _background_pixels(background, width_px, height_px).astype(np.float32)
    return (alpha * color + (np.float32(1.0) - alpha) * behind).astype(np.uint8)
