"""What the demo streams: photographs that ship with scikit-image, and what is made of them.

Those are one of 12 megapixels, a transparent one, a WebP, raw pixels, and a damaged file between the good ones.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from monopath import RawImage

__all__ = ["Picture", "photograph_folder", "pictures"]

_PHOTOGRAPHS = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "rocket.jpg",
    "retina.jpg",
    "hubble_deep_field.jpg",
)
_LARGE_SIZE_PX = (4000, 3000)


@dataclass(frozen=True, slots=True)
class Picture:
    """One thing to stream."""

    name: str
    image: bytes | RawImage
    damaged: bool = False
    """It must fail, alone."""


def photograph_folder() -> Path:
    """Return where the photographs lie: in scikit-image, which is unpacked for them beside the installed packages.

    Raises RuntimeError where they are missing.
    """
    folder = Path(sys.prefix) / "photographs" / "skimage" / "data"
    if not folder.is_dir():
        raise RuntimeError(f"Expected the photographs of scikit-image in {folder}; `make setup` puts them there")
    return folder


def pictures() -> list[Picture]:
    """Return the photographs as they are, and what is made of them, in the order in which they are streamed."""
    folder = photograph_folder()
    files = {name: (folder / name).read_bytes() for name in _PHOTOGRAPHS}
    coffee, chelsea = _decoded(files["coffee.png"]), _decoded(files["chelsea.png"])
    large = coffee.resize(_LARGE_SIZE_PX, Image.Resampling.BICUBIC)
    found = [Picture(name.replace("_deep_field", ""), data) for name, data in files.items()]
    found[3:3] = [Picture("truncated.jpg", files["rocket.jpg"][: len(files["rocket.jpg"]) // 2], damaged=True)]
    return [
        *found,
        Picture("12-Mpx.jpg", _encoded(large, "JPEG")),
        Picture("fading.png", _encoded(_fading(coffee), "PNG")),
        Picture("chelsea.webp", _encoded(chelsea, "WEBP")),
        Picture("raw RGB8", RawImage(np.asarray(chelsea), "RGB8")),
        Picture("raw GRAY8", RawImage(np.asarray(_decoded(files["camera.png"], "L")), "GRAY8")),
    ]


def _decoded(data: bytes, mode: str = "RGB") -> Image.Image:
    return Image.open(io.BytesIO(data)).convert(mode)


def _fading(image: Image.Image) -> Image.Image:
    """Return the image with an alpha channel that runs from transparent to opaque."""
    faded = image.copy()
    faded.putalpha(Image.linear_gradient("L").resize(image.size))
    return faded


def _encoded(image: Image.Image, file_format: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format, quality=90)
    return buffer.getvalue()
