"""Decoding into memory of ours: the same pixels as Pillow's own memory has, for every file format, and nothing left."""

from __future__ import annotations

import gc
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media import pillow_memory
from monopath_server.media.decode import decode_image, decode_into, owned_bytes
from monopath_server.media.header import probe_header
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pillow_memory import load_into
from monopath_server.processors.types import OrientationPolicy

WIDTH_PX, HEIGHT_PX = 517, 533
NOISE = np.random.default_rng(7).integers(0, 256, (HEIGHT_PX, WIDTH_PX, 4), dtype=np.uint8)
KEEP = OrientationPolicy.KEEP


def encoded(mode: str, file_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(NOISE[..., : len(mode)])).save(buffer, file_format, **options)
    return buffer.getvalue()


FILES = {
    "jpeg": encoded("RGB", "JPEG"),
    "jpeg 4:4:4": encoded("RGB", "JPEG", subsampling=0, quality=95),
    "jpeg progressive": encoded("RGB", "JPEG", progressive=True),
    "jpeg restart markers": encoded("RGB", "JPEG", restart_marker_rows=2),
    "png": encoded("RGB", "PNG"),
    "png with alpha": encoded("RGBA", "PNG"),
    "webp": encoded("RGB", "WEBP"),
    "webp lossless with alpha": encoded("RGBA", "WEBP", lossless=True),
    "tiff": encoded("RGB", "TIFF"),
    "tiff lzw": encoded("RGB", "TIFF", compression="tiff_lzw"),
    "bmp": encoded("RGB", "BMP"),
}


def memory_of(data: bytes) -> NDArray[np.uint8]:
    return np.full(owned_bytes(probe_header(data, ImageLimits())), 0xEE, np.uint8)


def exported_count() -> int:
    gc.collect()
    return len(pillow_memory._exported)


@pytest.mark.parametrize("name", FILES)
def test_pixels_in_our_memory_are_those_in_pillows(name: str) -> None:
    data = FILES[name]
    header = probe_header(data, ImageLimits())
    memory = memory_of(data)
    loaded = decode_into(data, header, KEEP, memory)
    expected = np.asarray(decode_image(data, header))
    assert np.array_equal(np.asarray(loaded.image), expected)
    if loaded.pixels is not None:
        assert np.shares_memory(loaded.pixels, memory)
        assert np.array_equal(loaded.pixels[..., : expected.shape[2]], expected)


def test_a_jpeg_and_a_png_are_decoded_in_place() -> None:
    for name in ("jpeg", "png", "png with alpha"):
        data = FILES[name]
        assert decode_into(data, probe_header(data, ImageLimits()), KEEP, memory_of(data)).pixels is not None


def test_a_truncated_file_is_damaged_and_leaves_nothing_behind() -> None:
    data = FILES["jpeg"]
    header, memory, before = probe_header(data, ImageLimits()), memory_of(data), exported_count()
    for _ in range(3):
        with pytest.raises(ItemFault) as raised:
            decode_into(data[: len(data) // 2], header, KEEP, memory)
        assert raised.value.reason is ItemReason.IMAGE_DAMAGED
    del raised
    assert exported_count() == before


def test_memory_is_let_go_with_the_image() -> None:
    before = exported_count()
    data = FILES["png"]
    loaded = decode_into(data, probe_header(data, ImageLimits()), KEEP, memory_of(data))
    assert exported_count() == before + 1
    del loaded
    assert exported_count() == before


def test_threads_decode_side_by_side() -> None:
    data = FILES["jpeg progressive"]
    header = probe_header(data, ImageLimits())
    expected = np.asarray(decode_image(data, header))

    def decode(_: int) -> bool:
        pixels = decode_into(data, header, KEEP, memory_of(data)).pixels
        return pixels is not None and np.array_equal(pixels[..., :3], expected)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(decode, range(40)))


def test_an_upright_copy_is_not_in_our_memory() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded("RGB", "JPEG", exif=exif.tobytes())
    header = probe_header(data, ImageLimits())
    loaded = decode_into(data, header, OrientationPolicy.APPLY, memory_of(data))
    assert loaded.pixels is None
    assert np.array_equal(np.asarray(loaded.image), np.asarray(decode_image(data, header, OrientationPolicy.APPLY)))


@pytest.mark.parametrize(("mode", "size_bytes"), [("L", WIDTH_PX * HEIGHT_PX * 4), ("RGB", 16)])
def test_other_modes_and_small_memory_are_refused(mode: str, size_bytes: int) -> None:
    buffer = io.BytesIO()
    Image.fromarray(NOISE[..., 0] if mode == "L" else np.ascontiguousarray(NOISE[..., :3])).save(buffer, "PNG")
    with Image.open(buffer) as image, pytest.raises(ValueError, match="Expected"):
        load_into(image, np.zeros(size_bytes, np.uint8))


def test_small_images_and_other_modes_ask_for_no_memory() -> None:
    small = encoded("RGB", "PNG")
    header = probe_header(small, ImageLimits())
    assert owned_bytes(header) == WIDTH_PX * HEIGHT_PX * 4
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64)).save(buffer, "PNG")
    assert owned_bytes(probe_header(buffer.getvalue(), ImageLimits())) == 0
    buffer = io.BytesIO()
    Image.new("L", (2048, 2048)).save(buffer, "PNG")
    assert owned_bytes(probe_header(buffer.getvalue(), ImageLimits())) == 0
