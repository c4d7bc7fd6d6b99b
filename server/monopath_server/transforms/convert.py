"""Rows that were made elsewhere: converts them between element types, and looks for values that are not finite."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType
from monopath_server.transforms.tables import ElementBits, element_table, float32_to_bits

__all__ = ["convert_rows", "first_non_finite"]

# Bounds the memory of a conversion, whatever the image's size.
_ELEMENTS_AT_ONCE: Final = 1 << 20

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]


def convert_rows(
    source: Buffer,
    source_type: ElementType,
    out: NDArray[np.uint8],
    target_type: ElementType,
    config: ProcessorConfig,
) -> None:
    """Convert rows of patches into `out`.

    Args:
        source: Little-endian elements of whole rows, (rows, 3, ...) in C order, as `ImagePlan.shape`.
        source_type: Their type. UINT8 rows are pixels and become normalised floats.
        out: uint8 [bytes], flat, contiguous and writable; exactly the size of the converted rows.
        target_type: Type of the elements in `out`. A float is rounded to nearest, ties to even.
        config: Gives the size of a row and the constants of the normalisation.

    Raises:
        ValueError: floats to UINT8, which cannot be undone, or a size that is not that of whole rows.
    """
    if target_type is ElementType.UINT8 and source_type is not ElementType.UINT8:
        raise ValueError(f"Expected pixels for UINT8 rows, got {source_type.name}")
    elements = _as_bits(np.frombuffer(source, np.uint8), source_type)
    arithmetic = config.arithmetic
    row_elements = arithmetic.layout.row_elements
    if elements.size % row_elements:
        raise ValueError(f"Expected whole rows of {row_elements} elements, got {elements.size} elements")
    if out.dtype != np.uint8 or out.ndim != 1 or out.nbytes != elements.size * target_type.itemsize:
        raise ValueError(f"Expected a flat buffer of {elements.size * target_type.itemsize} bytes, got {out.nbytes}")
    target = _as_bits(out, target_type)
    if source_type is target_type:
        target[:] = elements
    elif source_type is ElementType.UINT8:
        _normalize(elements, target, target_type, arithmetic)
    else:
        for start in range(0, elements.size, _ELEMENTS_AT_ONCE):
            stretch = slice(start, start + _ELEMENTS_AT_ONCE)
            target[stretch] = float32_to_bits(_to_float32(elements[stretch], source_type), target_type)


def first_non_finite(elements: Buffer, element_type: ElementType) -> int | None:
    """Return the index of the first infinite or NaN element; None where all are finite, as UINT8 always is.

    Raises:
        ValueError: the size is not that of whole elements.
    """
    bits = _as_bits(np.frombuffer(elements, np.uint8), element_type)
    match element_type:
        case ElementType.UINT8:
            return None
        case ElementType.FLOAT32:
            exponent = 0x7F800000
        case ElementType.BFLOAT16:
            exponent = 0x7F80
        case ElementType.FLOAT16:
            exponent = 0x7C00
    for start in range(0, bits.size, _ELEMENTS_AT_ONCE):
        stretch = bits[start : start + _ELEMENTS_AT_ONCE]
        is_not_finite = stretch & bits.dtype.type(exponent) == exponent
        if is_not_finite.any():
            return start + int(is_not_finite.argmax())
    return None


def _as_bits(data: NDArray[np.uint8], element_type: ElementType) -> ElementBits:
    if data.nbytes % element_type.itemsize:
        raise ValueError(f"Expected whole elements of {element_type.itemsize} bytes, got {data.nbytes} bytes")
    match element_type:
        case ElementType.UINT8:
            return data
        case ElementType.FLOAT32:
            return data.view(np.uint32)
        case ElementType.BFLOAT16 | ElementType.FLOAT16:
            return data.view(np.uint16)


def _to_float32(bits: ElementBits, element_type: ElementType) -> NDArray[np.float32]:
    """Widen floats of any type; exact."""
    match element_type:
        case ElementType.FLOAT32:
            return bits.view(np.float32)
        case ElementType.FLOAT16:
            return bits.view(np.float16).astype(np.float32)
        case ElementType.BFLOAT16:
            return (bits.astype(np.uint32) << 16).view(np.float32)
        case ElementType.UINT8:
            raise ValueError("Expected a floating element type, got UINT8")


def _normalize(pixels: ElementBits, target: ElementBits, target_type: ElementType, arithmetic: PixelArithmetic) -> None:
    table = element_table(arithmetic.image_mean, arithmetic.image_std, target_type, arithmetic.normalization)
    plane = arithmetic.layout.row_elements // 3
    pixel_planes = pixels.reshape(-1, 3, plane)
    target_planes = target.reshape(-1, 3, plane)
    rows_at_once = max(_ELEMENTS_AT_ONCE // (3 * plane), 1)
    for start in range(0, len(pixel_planes), rows_at_once):
        rows = slice(start, start + rows_at_once)
        for channel in range(3):
            target_planes[rows, channel] = table[channel][pixel_planes[rows, channel]]
