"""Tables of values: normalise, element bits, premultiply and composite."""

from __future__ import annotations

import hashlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from PIL import Image

from monopath_server.processors.types import Background, BackgroundPattern, ElementType
from monopath_server.transforms import tables

HALF = (0.5, 0.5, 0.5)
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


def sha256(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def test_normalized_values_have_the_published_bytes() -> None:
    half = tables.normalize_table(HALF, HALF)

    assert sha256(half[0]) == "d15e8ce72284446496a6de66e8a4795818530b44cd2c3dd415077364535c3c1a"
    assert sha256(half) == "59e92db758d185f3e78b2d7a346580fc50ce7b0317d28f68f40ad10293501ab3"
    clip = tables.normalize_table(CLIP_MEAN, CLIP_STD)
    assert sha256(clip) == "963d710b4e5d42c96bbc122dd791871678442f224097750e6083da8f9308ab05"


def test_a_padded_pixel_is_exactly_minus_one_for_the_released_configs() -> None:
    assert tables.normalize_table(HALF, HALF)[:, 0].tolist() == [-1.0, -1.0, -1.0]


@pytest.mark.parametrize(
    ("background_value", "digest"),
    [
        (255, "1c318b5d0d0c793a92121e9ac32d34e12b80aace0800407c1c4b585bfbfe949e"),
        (180, "a8c3ee57f77343114db8716cd07bc80e71dc83dfc7aa997e2d8dead90ede0fdb"),
        (200, "36f2f8de3698b9c1f7b11ce2e061df57491eead00b27452e12c15f721c7576a8"),
        (128, "3da3125e2ca2d14368c744dade8115c1fc27e8bd410ec9ad491bce4f210abac5"),
    ],
)
def test_composite_tables_have_the_published_bytes(background_value: int, digest: str) -> None:
    assert sha256(tables.composite_table(background_value)) == digest


@pytest.mark.parametrize(
    ("alpha", "colour", "background_value", "expected"),
    [
        (65, 255, 255, 254),
        (71, 180, 180, 179),
        (0, 10, 255, 255),
        (255, 10, 180, 10),
        (128, 0, 255, 126),
        (128, 0, 180, 89),
        (128, 255, 180, 217),
        (1, 0, 255, 254),
    ],
)
def test_composites_are_the_published_ones(alpha: int, colour: int, background_value: int, expected: int) -> None:
    assert tables.composite_table(background_value)[alpha, colour] == expected


def test_premultiplied_and_straight_colours_are_those_of_pillow() -> None:
    alpha, colour = np.mgrid[0:256, 0:256].astype(np.uint8)
    pixels = np.stack([colour, colour, colour, alpha], axis=-1)

    premultiplied = np.asarray(Image.fromarray(pixels).convert("RGBa"))
    # What filters make is any colour with any alpha, so Pillow is given every pair.
    straight = np.asarray(Image.frombytes("RGBa", (256, 256), pixels.tobytes()).convert("RGBA"))

    assert np.array_equal(tables.premultiply_table(), premultiplied[..., 0])
    assert np.array_equal(tables.unpremultiply_table(), straight[..., 0])


@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        (BackgroundPattern.WHITE, (255, 255)),
        (BackgroundPattern.BLACK, (0, 0)),
        (BackgroundPattern.GRAY, (128, 128)),
        (BackgroundPattern.CHESSBOARD, (250, 7)),
    ],
)
def test_each_pattern_has_its_two_values(pattern: BackgroundPattern, values: tuple[int, int]) -> None:
    background = Background(pattern, chessboard_white_value=250, chessboard_gray_value=7)

    direct = tables.alpha_tables(background, is_resized=False)
    folded = tables.alpha_tables(background, is_resized=True)

    for square, value in enumerate(values):
        assert np.array_equal(direct[square], tables.composite_table(value))
        for alpha in (0, 1, 77, 254, 255):
            straight = tables.unpremultiply_table()[alpha]
            assert np.array_equal(folded[square, alpha], tables.composite_table(value)[alpha, straight])


def test_a_dropped_alpha_leaves_the_straight_colour() -> None:
    assert np.array_equal(
        tables.alpha_tables(None, is_resized=False), np.tile(np.arange(256, dtype=np.uint8), (2, 256, 1))
    )
    assert np.array_equal(tables.alpha_tables(None, is_resized=True)[1], tables.unpremultiply_table())


@given(hnp.arrays(np.uint32, 64, elements=st.integers(0, 2**32 - 1)))
def test_float32_is_rounded_to_16_bits_to_nearest_even(bits: NDArray[np.uint32]) -> None:
    values = bits.view(np.float32)
    values = np.where(np.isnan(values), np.float32(0), values)

    with np.errstate(over="ignore"):
        expected_bfloat16 = values.astype(ml_dtypes.bfloat16).view(np.uint16)
        expected_float16 = values.astype(np.float16).view(np.uint16)

    assert np.array_equal(tables.float32_to_bits(values, ElementType.BFLOAT16), expected_bfloat16)
    assert np.array_equal(tables.float32_to_bits(values, ElementType.FLOAT16), expected_float16)
    assert np.array_equal(tables.float32_to_bits(values, ElementType.FLOAT32), values.view(np.uint32))


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000])
def test_a_nan_stays_one_in_bfloat16(bits: int) -> None:
    rounded = tables.float32_to_bits(np.array([bits], np.uint32).view(np.float32), ElementType.BFLOAT16)

    assert np.isnan(rounded.view(ml_dtypes.bfloat16).astype(np.float32))[0]


def test_uint8_elements_are_the_pixels() -> None:
    table = tables.element_table(CLIP_MEAN, CLIP_STD, ElementType.UINT8)

    assert np.array_equal(table, np.tile(np.arange(256, dtype=np.uint8), (3, 1)))


@pytest.mark.parametrize("element_type", ElementType)
def test_tables_cannot_be_written(element_type: ElementType) -> None:
    table = tables.element_table(HALF, HALF, element_type)

    assert table.itemsize == element_type.itemsize
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1
