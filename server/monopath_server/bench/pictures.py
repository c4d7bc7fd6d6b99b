"""The images that are measured: JPEG files that look like photographs to a decoder, the same ones in every run."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.processors.types import Size

__all__ = ["BENCH_SIZES", "Picture", "picture", "size_name"]

BENCH_SIZES = (Size(256, 256), Size(1024, 1024), Size(1920, 1080), Size(2048, 2048), Size(4000, 3000))
_QUALITY = 90
_NOISE_SIGMA = 6.0
_SEED = 20_250_101


@dataclass(frozen=True, slots=True)
class Picture:
    """One image file."""

    name: str
    """Its size, as keys of the report have it."""
    size: Size
    data: bytes


def size_name(size: Size) -> str:
    """Write a size as keys of the report have it: 1024 for a square, 1920x1080 for any other."""
    return str(size.width_px) if size.width_px == size.height_px else f"{size.width_px}x{size.height_px}"


@functools.cache
def picture(size: Size) -> Picture:
    """Return a JPEG file of quality 90 with halved chroma: smooth waves under the noise of a sensor.

    That makes about a quarter of a byte a pixel, as photographs have it; pure noise would be several times as much, and
    the decoder would do little but read it.
    """
    buffer = io.BytesIO()
    Image.fromarray(_pixels(size)).save(buffer, "JPEG", quality=_QUALITY, subsampling="4:2:0")
    return Picture(size_name(size), size, buffer.getvalue())


def _pixels(size: Size) -> NDArray[np.uint8]:
    """uint8 [height, width, 3]."""
    random = np.random.default_rng(_SEED)
    x = np.arange(size.width_px, dtype=np.float32)
    y = np.arange(size.height_px, dtype=np.float32)
    pixels = np.empty((size.height_px, size.width_px, 3), np.uint8)
    for channel in range(3):
        waves = np.outer(np.cos(y / (110 + 30 * channel)), np.sin(x / (70 + 50 * channel) + channel))
        noise = random.standard_normal(waves.shape, np.float32)
        pixels[..., channel] = np.clip(127 + 100 * waves + _NOISE_SIGMA * noise, 0, 255)
    return pixels
