"""Rows made elsewhere: conversion between element types, and values that are not finite."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType
from monopath_server.transforms.convert import convert_rows, first_non_finite
from tests.numerics.oracle import normalized_values

CONFIG = dataclasses.replace(
    PRESETS["kimi-k2.5"], image_mean=(0.48145466, 0.4578275, 0.40821073), image_std=(0.27, 0.26, 0.28)
)
ROW_ELEMENTS = 3 * 14 * 14
DTYPES: dict[ElementType, Any] = {
    ElementType.FLOAT32: np.float32,
    ElementType.FLOAT16: np.float16,
    ElementType.BFLOAT16: ml_dtypes.bfloat16,
}
FLOATS = tuple(DTYPES)


def convert(source: NDArray[np.uint8], source_type: ElementType, target_type: ElementType) -> NDArray[np.uint8]:
    out = np.full(source.nbytes // source_type.itemsize * target_type.itemsize, 77, np.uint8)
    convert_rows(source, source_type, out, target_type, CONFIG)
    return out


def random_values(row_count: int) -> NDArray[np.float32]:
    generator = np.random.default_rng(row_count)
    bits = generator.integers(0, 2**32, row_count * ROW_ELEMENTS, dtype=np.uint32)
    values = bits.view(np.float32)
    ordinary = generator.normal(0, 2, values.size).astype(np.float32)
    return np.where(np.isfinite(values) & (generator.random(values.size) < 0.5), values, ordinary).astype(np.float32)


@pytest.mark.parametrize(("source_type", "target_type"), list(itertools.product(FLOATS, FLOATS)))
@pytest.mark.parametrize("row_count", [0, 1, 7, 2000])
def test_floats_are_rounded_to_nearest_even(source_type: ElementType, target_type: ElementType, row_count: int) -> None:
    with np.errstate(over="ignore"):
        source = random_values(row_count).astype(DTYPES[source_type])
        expected = source.astype(np.float32).astype(DTYPES[target_type])

    converted = convert(source.view(np.uint8), source_type, target_type)

    assert converted.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target_type", FLOATS)
@pytest.mark.parametrize("row_count", [1, 5, 3000])
def test_pixels_are_normalized_by_channel(target_type: ElementType, row_count: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (row_count, 3, 14, 14), dtype=np.uint8)
    values = normalized_values(np.moveaxis(pixels, 1, -1), CONFIG)

    converted = convert(pixels.reshape(-1), ElementType.UINT8, target_type)

    expected = np.ascontiguousarray(np.moveaxis(values, -1, 1)).astype(DTYPES[target_type])
    assert converted.tobytes() == expected.tobytes()


@pytest.mark.parametrize("element_type", ElementType)
def test_rows_of_the_same_type_are_copied(element_type: ElementType) -> None:
    source = np.random.default_rng(1).integers(0, 256, 2 * ROW_ELEMENTS * element_type.itemsize, dtype=np.uint8)

    assert convert(source, element_type, element_type).tobytes() == source.tobytes()


def test_bytes_and_views_are_taken_too() -> None:
    source = random_values(1)
    out = np.empty(ROW_ELEMENTS * 2, np.uint8)
    for data in (source.tobytes(), bytearray(source.tobytes()), memoryview(source.tobytes())):
        out[:] = 0
        convert_rows(data, ElementType.FLOAT32, out, ElementType.BFLOAT16, CONFIG)
        assert out.tobytes() == source.astype(ml_dtypes.bfloat16).tobytes()


@pytest.mark.parametrize("source_type", FLOATS)
def test_floats_cannot_become_pixels(source_type: ElementType) -> None:
    with pytest.raises(ValueError, match=f"Expected pixels for UINT8 rows, got {source_type.name}"):
        convert(np.zeros(ROW_ELEMENTS * source_type.itemsize, np.uint8), source_type, ElementType.UINT8)


def test_sizes_that_are_no_rows_are_refused() -> None:
    out = np.zeros(ROW_ELEMENTS * 2, np.uint8)
    for byte_count in (ROW_ELEMENTS * 4 - 4, ROW_ELEMENTS * 4 - 1):
        with pytest.raises(ValueError, match="Expected whole"):
            convert_rows(bytes(byte_count), ElementType.FLOAT32, out, ElementType.BFLOAT16, CONFIG)
    with pytest.raises(ValueError, match=f"Expected a flat buffer of {ROW_ELEMENTS * 4} bytes"):
        convert_rows(bytes(ROW_ELEMENTS * 4), ElementType.FLOAT32, out, ElementType.FLOAT32, CONFIG)


@pytest.mark.parametrize("element_type", FLOATS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("index", [0, 1, 99, 1_300_000])
def test_the_first_value_that_is_not_finite_is_found(element_type: ElementType, value: float, index: int) -> None:
    values = np.zeros(1_300_001, DTYPES[element_type])
    assert first_non_finite(values.view(np.uint8), element_type) is None
    values[-1] = np.inf
    values[index] = value

    assert first_non_finite(values.view(np.uint8), element_type) == index


@pytest.mark.parametrize("element_type", FLOATS)
def test_the_largest_and_the_smallest_values_are_finite(element_type: ElementType) -> None:
    information = ml_dtypes.finfo(DTYPES[element_type])  # type: ignore[no-untyped-call]
    values = np.array([information.max, information.min, information.smallest_subnormal], DTYPES[element_type])

    assert first_non_finite(values.view(np.uint8), element_type) is None


def test_pixels_are_always_finite() -> None:
    assert first_non_finite(bytes([255] * 10), ElementType.UINT8) is None
