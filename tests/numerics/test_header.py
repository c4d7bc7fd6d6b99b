"""Headers of encoded images: what they say, and the limits they are held against before a pixel has memory."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import struct
from collections.abc import Callable

import pytest
from PIL import Image

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.bounded_reader import BoundedReader, bounded_file
from monopath_server.media.header import ImageHeader, planned_size, probe_header
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pixels import PixelFormat, check_raw_pixels
from monopath_server.media.png import find_exif_chunk
from monopath_server.processors.types import OrientationPolicy, Size
from tests.support.case_inputs import case_inputs, png_chunk

LIMITS = ImageLimits()
INPUTS = case_inputs()


def fault_of(data: bytes, limits: ImageLimits = LIMITS) -> ItemFault:
    with pytest.raises(ItemFault) as caught:
        probe_header(data, limits)
    return caught.value


def message_or_none(data: bytes) -> str | None:
    """Return the text of the fault that a header raises, None where it can be read. Nothing else may be raised."""
    try:
        probe_header(data, LIMITS)
    except ItemFault as fault:
        return fault.message
    return None


@pytest.mark.parametrize(
    ("name", "file_format", "mode", "size"),
    [
        ("gray.jpg", "JPEG", "L", Size(64, 48)),
        ("la.png", "PNG", "LA", Size(64, 48)),
        ("one_bit.png", "PNG", "1", Size(64, 48)),
        ("p_opaque.png", "PNG", "P", Size(64, 48)),
        ("p_transparent.png", "PNG", "P", Size(64, 48)),
        ("rgb_trns.png", "PNG", "RGB", Size(64, 64)),
        ("l_trns0.png", "PNG", "L", Size(64, 48)),
        ("rgba.png", "PNG", "RGBA", Size(64, 48)),
        ("gray16.png", "PNG", "I;16", Size(64, 48)),
        ("cmyk.jpg", "JPEG", "CMYK", Size(64, 48)),
        ("cmyk.tif", "TIFF", "CMYK", Size(64, 48)),
        ("int32.tif", "TIFF", "I", Size(64, 48)),
        ("float32.tif", "TIFF", "F", Size(64, 48)),
        ("lab.tif", "TIFF", "LAB", Size(64, 48)),
        ("picture.bmp", "BMP", "RGB", Size(64, 48)),
        ("picture.avif", "AVIF", "RGB", Size(64, 48)),
        ("anim.gif", "GIF", "P", Size(32, 32)),
        ("anim.png", "PNG", "RGB", Size(32, 32)),
        ("anim.webp", "WEBP", "RGB", Size(32, 32)),
        ("mpo.jpg", "MPO", "RGB", Size(32, 32)),
        ("tiny_1x257.png", "PNG", "RGB", Size(1, 257)),
    ],
)
def test_a_header_says_format_mode_and_size(name: str, file_format: str, mode: str, size: Size) -> None:
    assert probe_header(INPUTS[name], LIMITS) == ImageHeader(file_format, mode, size, exif_orientation=1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_header_says_its_orientation(orientation: int) -> None:
    header = probe_header(INPUTS[f"exif_{orientation}.jpg"], LIMITS)

    assert header.exif_orientation == orientation
    assert header.stored_size == Size(64, 48)
    assert planned_size(header, OrientationPolicy.KEEP) == Size(64, 48)
    expected = Size(48, 64) if orientation >= 5 else Size(64, 48)
    assert planned_size(header, OrientationPolicy.APPLY) == expected


@pytest.mark.parametrize("name", ["exif_6.png", "exif_6_late.png"])
def test_an_orientation_is_found_before_and_behind_the_pixels_of_a_png(name: str) -> None:
    assert probe_header(INPUTS[name], LIMITS).exif_orientation == 6


def test_the_orientation_of_a_tiff_is_a_part_of_its_size() -> None:
    header = probe_header(INPUTS["tiff_orient_6.tif"], LIMITS)

    assert header.exif_orientation == 1
    for policy in OrientationPolicy:
        assert planned_size(header, policy) == Size(48, 64)


def test_damaged_exif_is_no_reason_to_refuse_an_image() -> None:
    data = (
        INPUTS["exif_6.jpg"]
        .replace(b"Exif\x00\x00II*\x00", b"Exif\x00\x00XXXX")
        .replace(b"Exif\x00\x00MM\x00*", b"Exif\x00\x00XXXX")
    )
    assert data != INPUTS["exif_6.jpg"]

    assert probe_header(data, LIMITS).exif_orientation == 1


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("empty.bin", ItemReason.IMAGE_EMPTY, "Expected an encoded image, got 0 bytes"),
        ("png_magic_only.bin", ItemReason.IMAGE_DAMAGED, "Expected a whole PNG header, got a damaged one"),
        ("text.bin", ItemReason.IMAGE_UNSUPPORTED, "got an unknown format"),
        ("bomb_20000.png", ItemReason.IMAGE_TOO_LARGE, "at most 67108864 pixels, got 20000 x 20000 = 400000000"),
        ("big_ok_14000_gray.png", ItemReason.IMAGE_TOO_LARGE, "got 14000 x 14000 = 196000000"),
        ("jpeg_header_65500.jpg", ItemReason.IMAGE_TOO_LARGE, "got 65500 x 65500 = 4290250000"),
        ("webp_canvas_16383.webp", ItemReason.IMAGE_TOO_LARGE, "got 16383 x 16383 = 268402689"),
    ],
)
def test_a_bad_header_is_refused_with_its_reason(name: str, reason: ItemReason, message: str) -> None:
    fault = fault_of(INPUTS[name])

    assert fault.reason is reason
    assert fault.message.startswith("Expected ")
    assert message in fault.message


@pytest.mark.parametrize("name", ["bomb_20000.png", "big_ok_14000_gray.png", "jpeg_header_65500.jpg"])
def test_an_image_over_the_limits_is_refused_before_it_has_memory(name: str) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(20):
        fault_of(INPUTS[name])

    # Pixels would take at least 196 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


def test_a_colour_mode_that_is_not_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monopath_server.media.header.KNOWN_MODES", frozenset(("RGB",)))

    fault = fault_of(INPUTS["gray.jpg"])

    assert fault.reason is ItemReason.IMAGE_UNSUPPORTED
    assert fault.message == "Expected a colour mode that can be turned into RGB, got L"


def test_every_limit_is_inclusive() -> None:
    data = INPUTS["gray.jpg"]
    exact = ImageLimits(max_side_px=64, max_pixels=64 * 48, max_encoded_bytes=len(data))
    assert probe_header(data, exact).stored_size == Size(64, 48)

    side = fault_of(data, dataclasses.replace(exact, max_side_px=63))
    pixels = fault_of(data, dataclasses.replace(exact, max_pixels=64 * 48 - 1))
    encoded = fault_of(data, dataclasses.replace(exact, max_encoded_bytes=len(data) - 1))

    assert side.reason is pixels.reason is ItemReason.IMAGE_TOO_LARGE
    assert "at most 63 pixels" in side.message
    assert "64 x 48 = 3072" in pixels.message
    assert encoded.reason is ItemReason.IMAGE_BYTES_EXCEEDED
    assert encoded.message == f"Expected at most {len(data) - 1} encoded bytes, got {len(data)}"


@pytest.mark.parametrize(
    "name", ["gray.jpg", "rgba.png", "anim.gif", "anim.webp", "cmyk.tif", "picture.avif", "picture.bmp"]
)
def test_a_header_cut_anywhere_is_read_or_refused_in_plain_words(name: str) -> None:
    data = INPUTS[name]
    for length_bytes in range(1, min(len(data), 400), 3):
        message = message_or_none(data[:length_bytes])
        assert message is None or message.startswith("Expected ")


@pytest.mark.parametrize(
    "name", ["tiff_orient_6.tif", "exif_6.jpg", "p_transparent_bytes.png", "anim.webp", "anim.gif"]
)
def test_a_header_with_any_byte_changed_is_read_or_refused_in_plain_words(name: str) -> None:
    data = INPUTS[name]
    for index in range(min(len(data), 200)):
        changed = bytearray(data)
        changed[index] ^= 0xFF
        message = message_or_none(bytes(changed))
        assert message is None or message.startswith("Expected ")


def test_the_search_for_a_late_chunk_ends() -> None:
    signature = INPUTS["rgba.png"][:8]

    assert find_exif_chunk(signature + png_chunk(b"tEXt", b"") * 10) is None
    assert find_exif_chunk(signature + png_chunk(b"tEXt", b"") + png_chunk(b"eXIf", b"II")) == b"II"
    assert find_exif_chunk(signature + png_chunk(b"tEXt", b"") * 70_000 + png_chunk(b"eXIf", b"II")) is None
    assert find_exif_chunk(b"no PNG") is None


@pytest.mark.parametrize(
    ("pixel_format", "channels"),
    [(PixelFormat.GRAY8, 1), (PixelFormat.GRAY_ALPHA8, 2), (PixelFormat.RGB8, 3), (PixelFormat.RGBA8, 4)],
)
def test_raw_pixels_have_exactly_their_bytes(pixel_format: PixelFormat, channels: int) -> None:
    assert pixel_format.channels == channels
    expected_bytes = 3 * 5 * channels
    check_raw_pixels(5, 3, pixel_format, expected_bytes, LIMITS)

    for byte_count in (expected_bytes - 1, expected_bytes + 1, 0):
        with pytest.raises(ItemFault) as caught:
            check_raw_pixels(5, 3, pixel_format, byte_count, LIMITS)
        assert caught.value.reason is ItemReason.PIXELS_SIZE_MISMATCH
        assert f"Expected {expected_bytes} bytes" in caught.value.message
        assert caught.value.message.endswith(f"got {byte_count}")


@pytest.mark.parametrize(
    ("width_px", "height_px", "reason"),
    [
        (0, 3, ItemReason.IMAGE_SIZE_INVALID),
        (3, 0, ItemReason.IMAGE_SIZE_INVALID),
        (-1, -1, ItemReason.IMAGE_SIZE_INVALID),
        (65_536, 1, ItemReason.IMAGE_TOO_LARGE),
        (20_000, 20_000, ItemReason.IMAGE_TOO_LARGE),
        (8_000, 8_000, ItemReason.IMAGE_BYTES_EXCEEDED),
    ],
)
def test_raw_pixels_are_held_against_the_limits(width_px: int, height_px: int, reason: ItemReason) -> None:
    with pytest.raises(ItemFault) as caught:
        check_raw_pixels(width_px, height_px, PixelFormat.RGB8, width_px * height_px * 3, LIMITS)

    assert caught.value.reason is reason


def png_of_empty_chunks() -> bytes:
    png = INPUTS["rgba.png"]
    end_of_header = png.index(b"IHDR") + 4 + 13 + 4
    return png[:end_of_header] + png_chunk(b"juNk", b"") * 200_000 + png[end_of_header:]


def jpeg_of_empty_comments() -> bytes:
    jpeg = INPUTS["gray.jpg"]
    return jpeg[:2] + b"\xff\xfe\x00\x02" * 300_000 + jpeg[2:]


def tiff_of_shared_tags() -> bytes:
    """Thousands of tags whose values are all of the file's one megabyte of data."""
    shared = b"\0" * 1_000_000
    offset = 8 + 2 + 12 * 4_000 + 4
    required = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: offset, 277: 1, 278: 8, 279: 64}
    tags = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in required.items()]
    tags += [struct.pack("<HHII", 40_000 + index, 1, len(shared), offset) for index in range(4_000 - len(tags))]
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(tags) + bytes(4) + shared


@pytest.mark.parametrize("make", [png_of_empty_chunks, jpeg_of_empty_comments, tiff_of_shared_tags])
def test_a_header_that_never_ends_is_given_up(make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    data = make()
    reads: list[int] = []
    exact_read = BoundedReader.read

    def counted_read(reader: BoundedReader, size: int | None = -1) -> bytes:
        result = exact_read(reader, size)
        reads.append(len(result))
        return result

    monkeypatch.setattr(BoundedReader, "read", counted_read)

    fault = fault_of(data)

    assert fault.reason is ItemReason.IMAGE_DAMAGED
    assert len(reads) <= 300_000 + 1
    assert sum(reads) <= 8 * len(data) + 1024 * 1024


@pytest.mark.parametrize("padding", [b"\xff\xfe\x00\x02", b"\xff", b"\xff\x00", b"\x00", b"\xff\xd0"])
def test_no_small_jpeg_file_reaches_the_bound_that_is_not_counted_for_it(padding: bytes) -> None:
    jpeg = INPUTS["gray.jpg"]
    data = jpeg[:2] + (b"\xff" + padding * (256 * 1024))[: 256 * 1024 - len(jpeg)] + jpeg[2:]
    assert not isinstance(bounded_file(data), BoundedReader)
    assert isinstance(bounded_file(data + b"\0"), BoundedReader)

    with contextlib.suppress(OSError, SyntaxError):  # whatever Pillow thinks of it, but not that it was read too often
        Image.open(BoundedReader(data))


def test_a_whole_image_is_read_far_less_than_the_bound() -> None:
    reader = BoundedReader(INPUTS["good_noise.jpg"])
    for _ in range(7):
        reader.seek(0)
        assert reader.read() == INPUTS["good_noise.jpg"]
