"""Generated images for `monopath verify`: every mode and container, in sizes where something can go wrong.

They are made by arithmetic alone, without random numbers, so that every run sees the same pixels.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, features

from monopath_server.reference.features import RawImage, RawPixelFormat

__all__ = ["GeneratedImage", "generated_images", "generated_pixels"]

SMALL_SIZES_PX = (
    (1, 1),
    (3, 3),
    (1, 40),
    (40, 1),
    (13, 9),
    (29, 27),
    (56, 28),
    (3, 200),
    (200, 3),
    (96, 96),
    (150, 60),
    (60, 150),
    (70, 190),
)
"""(width, height): tiny, thin, whole patches, and portraits of which Pillow 13 filters the height first."""
WIDE_SIZES_PX = ((7200, 20), (20, 7200))
"""Longer than 512 patches of 14 pixels: resized by the released checkpoints too, at little cost."""
LARGE_SIZES_PX = ((1820, 1800), (1000, 3400))
"""More than 16384 patches: resized by Kimi-K2.5."""

Source = bytes | RawImage


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """One image of the built-in set."""

    name: str
    """Kind and size, e.g. `png-rgba-60x150`."""
    source: Source
    mode: str
    """The mode Pillow opens it in."""


def generated_pixels(width_px: int, height_px: int, channel_count: int) -> NDArray[np.uint8]:
    """uint8 pixels [height, width, channels]: smooth near the origin, noise further out, every channel different."""
    x = np.arange(width_px, dtype=np.int64)[None, :, None]
    y = np.arange(height_px, dtype=np.int64)[:, None, None]
    c = np.arange(channel_count, dtype=np.int64)[None, None, :]
    value = 3 * x * x + 5 * y * y + 7 * x * y + 11 * x + 13 * y + 97 * c + (x * y * (c + 1)) // 16
    pixels: NDArray[np.uint8] = (value % 256).astype(np.uint8)
    return pixels


def _pixels_with_alpha(width_px: int, height_px: int, channel_count: int) -> NDArray[np.uint8]:
    """As `generated_pixels`, with hard alpha edges on the left half and soft alpha on the right."""
    pixels = generated_pixels(width_px, height_px, channel_count)
    left = pixels[:, : width_px // 2, -1]
    left[...] = np.where(left < 128, 0, 255)
    return pixels


def _encode(image: Image.Image, container: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, container, **options)
    return buffer.getvalue()


def _image(width_px: int, height_px: int, mode: str) -> Image.Image:
    channel_count = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    if mode in ("LA", "RGBA"):
        return Image.fromarray(_pixels_with_alpha(width_px, height_px, channel_count))
    pixels = generated_pixels(width_px, height_px, channel_count)
    if mode == "CMYK":
        return Image.frombytes("CMYK", (width_px, height_px), pixels.tobytes())
    return Image.fromarray(pixels[..., 0] if channel_count == 1 else pixels)


def _palette_image(width_px: int, height_px: int) -> Image.Image:
    """Sixteen far-apart colours, so that blended indices or colours would show."""
    image = Image.fromarray(generated_pixels(width_px, height_px, 1)[..., 0] % 16)
    palette_image = Image.frombytes("P", image.size, image.tobytes())
    palette_image.putpalette([(37 * entry + 91 * (entry % 3)) % 256 for entry in range(48)])
    return palette_image


def _palette_alpha_tiff(width_px: int, height_px: int) -> bytes:
    palette_image = _palette_image(width_px, height_px).convert("PA")
    palette_image.putalpha(Image.fromarray(generated_pixels(width_px, height_px, 2)[..., 1]))
    return _encode(palette_image, "TIFF")


def _rotated_exif() -> Image.Exif:
    """To be turned by 90 degrees, where a config applies orientations."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def _wide_values(width_px: int, height_px: int) -> NDArray[np.int64]:
    """Values from below 0 to above 65535, many of them inside 0..255: out of range ones are clipped, not scaled."""
    pixels = generated_pixels(width_px, height_px, 2).astype(np.int64)
    low, high = pixels[..., 0], pixels[..., 1]
    return np.where(high < 96, low, low * high)


def _sixteen_bit_png(width_px: int, height_px: int) -> bytes:
    return _encode(Image.fromarray(_wide_values(width_px, height_px).astype(np.uint16)), "PNG")


def _integer_tiff(width_px: int, height_px: int) -> bytes:
    return _encode(Image.fromarray((_wide_values(width_px, height_px) - 90).astype(np.int32)), "TIFF")


def _float_tiff(width_px: int, height_px: int) -> bytes:
    return _encode(Image.fromarray((_wide_values(width_px, height_px) * 0.75 - 90).astype(np.float32)), "TIFF")


def _two_frames(width_px: int, height_px: int, container: str) -> bytes:
    second = Image.new("RGB", (width_px, height_px), (0, 255, 0))
    first = _palette_image(width_px, height_px) if container == "GIF" else _image(width_px, height_px, "RGB")
    return _encode(first, container, save_all=True, append_images=[second])


def _raw(pixel_format: RawPixelFormat, mode: str) -> Callable[[int, int], Source]:
    def make(width_px: int, height_px: int) -> Source:
        return RawImage(width_px, height_px, pixel_format, _image(width_px, height_px, mode).tobytes())

    return make


def _encoded(container: str, mode: str, **options: Any) -> Callable[[int, int], Source]:
    return lambda width_px, height_px: _encode(_image(width_px, height_px, mode), container, **options)


def _palette(container: str, **options: Any) -> Callable[[int, int], Source]:
    return lambda width_px, height_px: _encode(_palette_image(width_px, height_px), container, **options)


def _converted(container: str, mode: str, **options: Any) -> Callable[[int, int], Source]:
    return lambda width_px, height_px: _encode(_image(width_px, height_px, "RGB").convert(mode), container, **options)


_KINDS: dict[str, Callable[[int, int], Source]] = {
    "png-rgb": _encoded("PNG", "RGB"),
    "jpeg-rgb": _encoded("JPEG", "RGB", quality=90),
    "jpeg-rotated": lambda width_px, height_px: _encode(
        _image(width_px, height_px, "RGB"), "JPEG", quality=90, exif=_rotated_exif()
    ),
    "jpeg-gray": _encoded("JPEG", "L", quality=90),
    "png-gray": _encoded("PNG", "L"),
    "png-gray-transparent": _encoded("PNG", "L", transparency=0),
    "png-gray-alpha": _encoded("PNG", "LA"),
    "png-rgba": _encoded("PNG", "RGBA"),
    "png-rgb-transparent": _encoded("PNG", "RGB", transparency=(0, 97, 194)),
    "png-palette": _palette("PNG"),
    "png-palette-transparent": _palette("PNG", transparency=5),
    "png-palette-alpha": _palette("PNG", transparency=bytes([0, 64, 128, 255])),
    "tiff-palette-alpha": _palette_alpha_tiff,
    "png-one-bit": _converted("PNG", "1"),
    "png-sixteen-bit": _sixteen_bit_png,
    "tiff-integer": _integer_tiff,
    "tiff-float": _float_tiff,
    "tiff-ycbcr": _converted("TIFF", "YCbCr"),
    "tiff-cmyk": _encoded("TIFF", "CMYK"),
    "jpeg-cmyk": _encoded("JPEG", "CMYK", quality=95),
    "gif-animated": lambda width_px, height_px: _two_frames(width_px, height_px, "GIF"),
    "mpo": lambda width_px, height_px: _two_frames(width_px, height_px, "MPO"),
    "bmp-rgb": _encoded("BMP", "RGB"),
    "raw-gray8": _raw("GRAY8", "L"),
    "raw-gray-alpha8": _raw("GRAY_ALPHA8", "LA"),
    "raw-rgb8": _raw("RGB8", "RGB"),
    "raw-rgba8": _raw("RGBA8", "RGBA"),
}
if features.check("webp"):
    _KINDS["webp-rgba"] = _encoded("WEBP", "RGBA", lossless=True)

_WIDE_KINDS = ("raw-gray8", "raw-rgb8", "raw-rgba8", "png-palette", "png-one-bit", "tiff-cmyk")
_LARGE_KINDS = ("raw-rgb8", "raw-rgba8")


def _mode_of(source: Source) -> str:
    if isinstance(source, RawImage):
        return {"GRAY8": "L", "GRAY_ALPHA8": "LA", "RGB8": "RGB", "RGBA8": "RGBA"}[source.pixel_format]
    with Image.open(io.BytesIO(source)) as image:
        return image.mode


def _of_kind(kind: str, sizes_px: tuple[tuple[int, int], ...]) -> Iterator[GeneratedImage]:
    for width_px, height_px in sizes_px:
        source = _KINDS[kind](width_px, height_px)
        yield GeneratedImage(f"{kind}-{width_px}x{height_px}", source, _mode_of(source))


def generated_images(*, include_large: bool = True) -> Iterator[GeneratedImage]:
    """Yields the built-in set, small images first.

    Under a released checkpoint only the wide and the large images are resized; `include_large=False` leaves the
    large ones out, for tests with small limits.
    """
    for kind in _KINDS:
        yield from _of_kind(kind, SMALL_SIZES_PX)
    for kind in _WIDE_KINDS:
        yield from _of_kind(kind, WIDE_SIZES_PX)
    if include_large:
        for kind in _LARGE_KINDS:
            yield from _of_kind(kind, LARGE_SIZES_PX)
