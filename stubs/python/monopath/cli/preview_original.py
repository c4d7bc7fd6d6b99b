"""An image file as people see it, to be shown beside what a model sees of it."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from monopath.cli.preview_rows import Pixels

__all__ = ["TRANSPARENT_COLOR", "Original", "read_original"]

TRANSPARENT_COLOR = (214, 188, 255)
"""Violet: no background of a checkpoint has it."""


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """A decoded file."""

    pixels: Pixels
    """Upon `TRANSPARENT_COLOR`, and turned by the EXIF orientation where that was asked for."""
    format: str
    mode: str
    """Pillow's name of the colour mode."""
    exif_orientation: int
    """1 to 8; 1 is upright."""
    transparent_share: float
    """How many of the pixels are not opaque, 0 to 1."""
    has_alpha: bool
    """Whether the file can have transparent pixels at all."""


def read_original(content: bytes, *, apply_orientation: bool) -> Original | str:
    """Decode a file's first frame with Pillow, or return why that cannot be done."""
    try:
        with warnings.catch_warnings():
            # They are about odd files, which is what a preview is for.
            warnings.simplefilter("ignore")
            file = Image.open(io.BytesIO(content))
            file_format, mode = file.format or "", file.mode
            file.load()
            orientation = file.getexif().get(ExifTags.Base.Orientation, 1)
            has_alpha = "A" in file.getbands() or "transparency" in file.info
            image = ImageOps.exif_transpose(file) if apply_orientation else file
            pixels, transparent_share = _upon_color(_visible(image))
    except UnidentifiedImageError:
        return "it is no image that Pillow knows"
    except Exception as error:  # A damaged file can raise nearly anything from within Pillow's plugins.
        return str(error) or type(error).__name__
    return Original(
        pixels,
        file_format,
        mode,
        orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1,
        transparent_share,
        has_alpha,
    )


def _visible(image: Image.Image) -> Image.Image:
    """Return the image in a mode whose conversion shows it: Pillow's own makes most of 16 bits white."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    return image


def _upon_color(image: Image.Image) -> tuple[Pixels, float]:
    rgba = np.asarray(image.convert("RGBA"))
    opacity = rgba[..., 3:]
    transparent_share = float(np.mean(opacity < 255))
    if transparent_share == 0:
        return np.ascontiguousarray(rgba[..., :3]), 0.0
    weights = opacity.astype(np.uint16)
    behind = np.array(TRANSPARENT_COLOR, np.uint16)
    blended = (rgba[..., :3] * weights + behind * (255 - weights) + 127) // 255
    return blended.astype(np.uint8), transparent_share
