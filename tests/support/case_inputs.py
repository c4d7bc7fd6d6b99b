"""Small encoded images that once broke somebody's service: every colour mode, damaged files, huge and tiny ones."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["case_inputs", "encode", "png_chunk", "png_declaring"]

_RAMP = np.linspace(0, 255, 64, dtype=np.uint8)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_ORIENTATION_TAG = 0x0112
_TINY_SIZES = ((1, 1), (1, 257), (257, 1), (2000, 1), (13, 9), (3, 300), (300, 3), (200, 1), (201, 1))


@functools.cache
def case_inputs() -> Mapping[str, bytes]:
    """Return all inputs by file name. They are made once per process and never change."""
    inputs: dict[str, bytes] = {}
    for make in (_oriented, _transparent, _deep, _animated, _damaged, _huge, _tiny):
        inputs.update(make())
    return MappingProxyType(inputs)


def encode(image: Image.Image, file_format: str, **options: object) -> bytes:
    """Encode an image in memory."""
    buffer = io.BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


def png_chunk(chunk_type: bytes, content: bytes) -> bytes:
    """Return one chunk of a PNG with its length and checksum."""
    checksum = zlib.crc32(chunk_type + content) & 0xFFFFFFFF
    return struct.pack(">I", len(content)) + chunk_type + content + struct.pack(">I", checksum)


def png_declaring(width_px: int, height_px: int) -> bytes:
    """Return an RGB PNG whose header declares a size, but that holds a single row."""
    row = b"\0" + b"\0" * (width_px * 3)
    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row, 9)), (b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(png_chunk(*chunk) for chunk in chunks)


def _noise(seed: int, height_px: int, width_px: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height_px, width_px, 3), dtype=np.uint8)


@functools.cache
def _picture() -> Image.Image:
    """64 x 48 pixels in RGB, with a blue bar on top only: its orientation can be told."""
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[..., 0] = _RAMP
    pixels[..., 1] = np.linspace(0, 255, 48, dtype=np.uint8)[:, None]
    pixels[:8, :, 2] = 255
    return Image.fromarray(pixels)


def _oriented() -> dict[str, bytes]:
    inputs = {}
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[_ORIENTATION_TAG] = orientation
        inputs[f"exif_{orientation}.jpg"] = encode(_picture(), "JPEG", quality=95, exif=exif.tobytes(), subsampling=0)
    exif = Image.Exif()
    exif[_ORIENTATION_TAG] = 6
    inputs["exif_6.png"] = encode(_picture(), "PNG", exif=exif.tobytes())
    plain = encode(_picture(), "PNG")
    end = plain.rindex(b"IEND") - 4
    inputs["exif_6_late.png"] = plain[:end] + png_chunk(b"eXIf", exif.tobytes()[6:]) + plain[end:]
    inputs["tiff_orient_6.tif"] = encode(_picture(), "TIFF", tiffinfo={274: 6})
    return inputs


def _transparent() -> dict[str, bytes]:
    picture = _picture()
    rgba = np.dstack([np.asarray(picture), np.tile(_RAMP, (48, 1))])
    rgba[:, :32] = 0
    hidden = np.zeros((64, 64, 4), np.uint8)
    hidden[..., 0] = 255
    hidden[:, 32:] = (0, 255, 0, 255)
    gray = Image.fromarray(np.full((48, 64), 10, np.uint8))
    alpha = Image.fromarray(np.tile(_RAMP, (48, 1)))
    palette = picture.quantize(8)
    red = Image.new("RGB", (64, 64), (255, 0, 0))
    red.paste((0, 0, 255), (0, 0, 32, 32))
    return {
        "rgba.png": encode(Image.fromarray(rgba), "PNG"),
        "rgba_colour_under_alpha0.png": encode(Image.fromarray(hidden), "PNG"),
        "la.png": encode(Image.merge("LA", [gray, alpha]), "PNG"),
        "p_opaque.png": encode(palette, "PNG"),
        "p_transparent.png": encode(palette, "PNG", transparency=0),
        "p_transparent_bytes.png": encode(palette, "PNG", transparency=bytes([0, 64, 128, 255])),
        "rgb_trns.png": encode(red, "PNG", transparency=(255, 0, 0)),
        "l_trns0.png": encode(Image.fromarray(np.repeat(_RAMP[None], 48, 0)), "PNG", transparency=0),
    }


def _deep() -> dict[str, bytes]:
    picture = _picture()
    gray16 = np.repeat((np.arange(64, dtype=np.uint32) * 1040).astype(np.uint16)[None], 48, 0)
    float32 = np.repeat(np.linspace(-20, 300, 64, dtype=np.float32)[None], 48, 0)
    cmyk = picture.convert("CMYK")
    return {
        "rgb.png": encode(picture, "PNG"),
        "gray.jpg": encode(picture.convert("L"), "JPEG"),
        "one_bit.png": encode(picture.convert("1"), "PNG"),
        "gray16.png": encode(Image.fromarray(gray16), "PNG"),
        "int32.tif": encode(Image.fromarray(gray16.astype(np.int32) // 200), "TIFF"),
        "float32.tif": encode(Image.fromarray(float32), "TIFF"),
        "lab.tif": encode(Image.frombytes("LAB", (64, 48), picture.tobytes()), "TIFF"),
        "cmyk.jpg": encode(cmyk, "JPEG", quality=95),
        "cmyk.tif": encode(cmyk, "TIFF"),
        "picture.bmp": encode(picture, "BMP"),
        "picture.avif": encode(picture, "AVIF"),
    }


def _animated() -> dict[str, bytes]:
    red, *others = (Image.new("RGB", (32, 32), colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255)))
    return {
        "anim.gif": encode(red, "GIF", save_all=True, append_images=others, duration=50),
        "anim.png": encode(red, "PNG", save_all=True, append_images=others, duration=50),
        "anim.webp": encode(red, "WEBP", save_all=True, append_images=others, lossless=True, duration=50),
        "mpo.jpg": encode(red, "MPO", save_all=True, append_images=others),
    }


def _damaged() -> dict[str, bytes]:
    jpeg = encode(Image.fromarray(_noise(0, 128, 128)), "JPEG", quality=90)
    png = encode(Image.fromarray(_noise(1, 256, 256)), "PNG")
    zeroed = bytearray(png)
    second_idat = png.index(b"IDAT", png.index(b"IDAT") + 4)
    zeroed[second_idat - 4 : second_idat + 4] = bytes(8)
    return {
        "good_noise.jpg": jpeg,
        "trunc_tail.jpg": jpeg[:-128],
        "trunc_half.jpg": jpeg[: len(jpeg) // 2],
        "png_second_idat_zeroed.png": bytes(zeroed),
        "trunc.png": png[: len(png) // 2],
        "empty.bin": b"",
        "text.bin": b"not an image",
        "png_magic_only.bin": _PNG_SIGNATURE,
    }


def _huge() -> dict[str, bytes]:
    jpeg = bytearray(encode(Image.new("RGB", (8, 8), (9, 9, 9)), "JPEG"))
    frame_header = jpeg.index(b"\xff\xc0")
    inputs = {"bomb_20000.png": png_declaring(20_000, 20_000)}
    for side_px in (65_500, 9_000):
        jpeg[frame_header + 5 : frame_header + 9] = struct.pack(">HH", side_px, side_px)
        inputs[f"jpeg_header_{side_px}.jpg"] = bytes(jpeg)
    inputs["big_ok_14000_gray.png"] = _big_gray_png(14_000)
    # A canvas of 16383 x 16383 that the WebP library would allocate on opening.
    canvas = bytes(4) + (16_382).to_bytes(3, "little") * 2
    body = b"WEBPVP8X" + struct.pack("<I", len(canvas)) + canvas
    inputs["webp_canvas_16383.webp"] = b"RIFF" + struct.pack("<I", len(body)) + body
    return inputs


def _big_gray_png(side_px: int) -> bytes:
    """Return an 8-bit gray PNG of one value, packed row by row: the image itself never exists."""
    packer = zlib.compressobj(1)
    row = b"\0" + b"\x07" * side_px
    packed = b"".join(packer.compress(row) for _ in range(side_px)) + packer.flush()
    header = struct.pack(">IIBBBBB", side_px, side_px, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(png_chunk(*chunk) for chunk in chunks)


def _tiny() -> dict[str, bytes]:
    return {
        f"tiny_{width_px}x{height_px}.png": encode(
            Image.fromarray(_noise(width_px * 7 + height_px, height_px, width_px)), "PNG"
        )
        for width_px, height_px in _TINY_SIZES
    }
