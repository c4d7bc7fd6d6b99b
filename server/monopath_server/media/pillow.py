"""Pillow, set up once for a server. Every module of this package that needs Pillow imports this one first."""

from __future__ import annotations

import warnings
from typing import Final

# Plugins are imported here, by name: `Image.open` would otherwise import all of them, in whichever thread comes first.
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

__all__ = ["ALLOWED_FORMATS", "KNOWN_MODES"]

_PLUGINS: Final = (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

ALLOWED_FORMATS: Final = tuple(
    name for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF") if name in Image.OPEN
)
"""The only file formats that are ever opened, by Pillow's names. JPEG includes MPO (of which the first is read)."""

KNOWN_MODES: Final = frozenset(
    (
        *("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB"),
        *("I", "F", "I;16", "I;16L", "I;16B", "I;16N"),
    )
)
"""Colour modes that can be turned into RGB: all that these formats are opened in."""

# Our own limits replace Pillow's: they are per server, not per process, and come with numbers in their error text.
Image.MAX_IMAGE_PIXELS = None

# An image in one block can be looked at without a copy. Pillow allocates no more than the image needs.
Image.core.set_block_size(512 * 1024 * 1024)  # type: ignore[attr-defined]

# Texts about a hostile file are no business of the server's stderr.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
