"""The look-up tables of one config and element type, on the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.types import ElementType
from monopath_server.transforms.cuda.device import TransformDevice
from monopath_server.transforms.tables import alpha_tables, element_table, gray_parity

__all__ = ["RAW_DTYPES", "DeviceTables", "parity_ordered_alpha_tables", "square_parity_table"]

RAW_DTYPES = {
    ElementType.UINT8: torch.uint8,
    ElementType.BFLOAT16: torch.int16,
    ElementType.FLOAT16: torch.int16,
    ElementType.FLOAT32: torch.int32,
}
"""Elements move as integers of their size, so that nothing on the device can round them or touch a NaN."""


def square_parity_table(arithmetic: PixelArithmetic) -> NDArray[np.uint8]:
    """uint8 [longest resized side]: whether a coordinate lies in an odd square of the background."""
    longest_side_px = arithmetic.longest_resized_side_px
    if arithmetic.background is None:
        return np.zeros(longest_side_px, np.uint8)
    square_px = arithmetic.background.chessboard_square_size
    return ((np.arange(longest_side_px) // square_px) & 1).astype(np.uint8)


def parity_ordered_alpha_tables(arithmetic: PixelArithmetic) -> NDArray[np.uint8]:
    """uint8 [2 resized, 2 parity, 256 alpha, 256 stored colour]: the final colour on a square of that parity."""
    background = arithmetic.background
    gray_square_parity = 0 if background is None else gray_parity(background)
    order = [0, 1] if gray_square_parity == 1 else [1, 0]
    rounding = arithmetic.composite_rounding
    return np.stack(
        [alpha_tables(background, is_resized=is_resized, rounding=rounding)[order] for is_resized in (False, True)]
    )


@dataclass(frozen=True, slots=True)
class DeviceTables:
    """Tensors that both kernels only read."""

    square_parity: torch.Tensor
    alpha_tables: torch.Tensor
    element_table: torch.Tensor
    """[3, 256] raw bits, as integers."""

    @classmethod
    def upload(cls, arithmetic: PixelArithmetic, element_type: ElementType, device: TransformDevice) -> DeviceTables:
        """Make the tables and copy them to the device, on the stream that is active; returns when they are there."""
        raw_bits = element_table(arithmetic.image_mean, arithmetic.image_std, element_type, arithmetic.normalization)
        signed_bits = raw_bits if element_type is ElementType.UINT8 else raw_bits.view(f"i{raw_bits.itemsize}")
        # Plain copies from pageable memory are complete when they return.
        return cls(
            square_parity=torch.tensor(square_parity_table(arithmetic)).to(device.torch_device),
            alpha_tables=torch.tensor(parity_ordered_alpha_tables(arithmetic)).to(device.torch_device),
            element_table=torch.tensor(signed_bits).to(device.torch_device),
        )
