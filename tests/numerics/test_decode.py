"""Decoding: the first frame as it is stored, damage, and orientation."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.decode import decode_image, decode_into
from monopath_server.media.header import ImageHeader, open_header, planned_size, probe_header
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pillow_view import view_pixels
from monopath_server.processors.types import OrientationPolicy, Size
from tests.support.case_inputs import case_inputs, encode

LIMITS = ImageLimits()
INPUTS = case_inputs()
DECODABLE = sorted(
    name
    for name in INPUTS
    if name.endswith((".jpg", ".png", ".gif", ".tif", ".webp", ".bmp", ".avif"))
    and not name.startswith(("trunc", "bomb", "big", "jpeg_header", "png_", "webp_canvas"))
)


def decode(name: str, orientation: OrientationPolicy = OrientationPolicy.KEEP) -> Image.Image:
    data = INPUTS[name]
    return decode_image(data, probe_header(data, LIMITS), orientation)


@pytest.mark.parametrize("name", DECODABLE)
def test_an_image_is_decoded_as_pillow_stores_it(name: str) -> None:
    expected = Image.open(io.BytesIO(INPUTS[name]))

    actual = decode(name)

    assert (actual.mode, actual.size) == (expected.mode, expected.size)
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["anim.gif", "anim.png", "anim.webp", "mpo.jpg"])
def test_the_first_frame_is_red(name: str) -> None:
    pixel = np.asarray(decode(name).convert("RGB"))[16, 16].astype(int)

    assert np.abs(pixel - (255, 0, 0)).max() < 5


@pytest.mark.parametrize("name", ["trunc_tail.jpg", "trunc_half.jpg", "trunc.png", "png_second_idat_zeroed.png"])
def test_a_damaged_image_is_refused_in_plain_words(name: str) -> None:
    header = probe_header(INPUTS[name], LIMITS)

    with pytest.raises(ItemFault) as caught:
        decode(name)

    assert caught.value.reason is ItemReason.IMAGE_DAMAGED
    assert caught.value.message == f"Expected a whole {header.format} image, got a damaged one"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "name", ["gray.jpg", "anim.gif", "anim.webp", "p_opaque.png", "cmyk.tif", "picture.avif", "tiff_orient_6.tif"]
)
def test_an_image_with_any_byte_changed_is_decoded_or_refused_in_plain_words(name: str) -> None:
    data = INPUTS[name]
    for index in range(0, len(data), max(len(data) // 150, 1)):
        changed = bytearray(data)
        changed[index] ^= 0x55
        outcome: tuple[Size, Size] | str
        try:
            header = probe_header(bytes(changed), LIMITS)
            outcome = (header.stored_size, Size(*decode_image(bytes(changed), header).size))
        except ItemFault as fault:
            outcome = fault.message
        if isinstance(outcome, str):
            assert outcome.startswith("Expected ")
        else:
            assert outcome[0] == outcome[1]


def test_pixels_that_contradict_the_header_are_refused() -> None:
    header = ImageHeader("JPEG", "L", Size(64, 47), exif_orientation=1)

    with pytest.raises(ItemFault) as caught:
        decode_image(INPUTS["gray.jpg"], header)

    assert caught.value.reason is ItemReason.IMAGE_DAMAGED
    assert "64 x 47" in caught.value.message
    assert "64 x 48" in caught.value.message


@pytest.mark.parametrize("name", [*(f"exif_{orientation}.jpg" for orientation in range(1, 9)), "exif_6.png"])
def test_an_orientation_is_applied_exactly_once(name: str) -> None:
    header = probe_header(INPUTS[name], LIMITS)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(INPUTS[name])))

    actual = decode(name, OrientationPolicy.APPLY)

    assert actual.tobytes() == expected.tobytes()
    assert Size(*actual.size) == planned_size(header, OrientationPolicy.APPLY)


def test_a_tiff_is_not_turned_twice() -> None:
    kept = decode("tiff_orient_6.tif", OrientationPolicy.KEEP)
    applied = decode("tiff_orient_6.tif", OrientationPolicy.APPLY)

    assert kept.size == applied.size == (48, 64)
    assert kept.tobytes() == applied.tobytes()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("is_borrowed", [False, True])
def test_a_view_shows_the_pixels_and_keeps_them_alive(mode: str, is_borrowed: bool) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (33, 21, len(mode)), dtype=np.uint8)
    image = Image.frombytes(mode, (21, 33), pixels.tobytes())
    if is_borrowed:
        image = Image.frombuffer(mode, (21, 33), pixels.tobytes(), "raw", mode, 0, 1)

    view = view_pixels(image)
    del image

    assert view.shape == (33, 21, 4)
    assert not view.flags.writeable
    assert np.array_equal(view[..., : len(mode)], pixels)


def test_an_image_of_many_blocks_is_viewed_too() -> None:
    block_bytes = Image.core.get_block_size()  # type: ignore[attr-defined]
    Image.core.set_block_size(4096)  # type: ignore[attr-defined]
    try:
        image = Image.frombytes("RGB", (100, 100), bytes(range(250)) * 120)
    finally:
        Image.core.set_block_size(block_bytes)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"not contiguous|block"):
        image.__arrow_c_array__()

    assert view_pixels(image)[..., :3].tobytes() == bytes(range(250)) * 120


def test_a_view_of_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected an image of mode RGB or RGBA, got L"):
        view_pixels(Image.new("L", (2, 2)))


def test_a_large_image_is_viewed_without_a_copy() -> None:
    image = Image.open(io.BytesIO(encode(Image.new("RGB", (3000, 2500), (1, 2, 3)), "PNG", compress_level=1)))
    image.load()

    view = view_pixels(image)

    assert type(view.base).__name__ == "_PixelMemory"
    assert view[2499, 2999, :3].tolist() == [1, 2, 3]


@pytest.mark.parametrize("orientation", OrientationPolicy)
def test_a_file_that_was_left_open_is_decoded_as_one_that_is_opened_anew(orientation: OrientationPolicy) -> None:
    image = Image.effect_noise((70, 50), 90).convert("RGB")
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", exif=exif)
    data = encoded.getvalue()
    header, opened = open_header(data, ImageLimits())
    assert header == probe_header(data, ImageLimits())
    file = opened.take()
    assert file is not None
    assert opened.take() is None
    found = decode_into(data, header, orientation, None, file).image
    expected = decode_image(data, header, orientation)
    assert (found.mode, found.size, found.tobytes()) == (expected.mode, expected.size, expected.tobytes())


def test_only_small_jpeg_files_are_left_open() -> None:
    for file_format, is_left_open in (("JPEG", True), ("PNG", False), ("TIFF", False), ("WEBP", False)):
        encoded = io.BytesIO()
        Image.new("RGB", (9, 8)).save(encoded, file_format)
        _, opened = open_header(encoded.getvalue(), ImageLimits())
        assert (opened.take() is not None) is is_left_open
        padded = encoded.getvalue() + bytes(1 << 20)
        _, opened = open_header(padded, ImageLimits())
        assert opened.take() is None
