"""The look-up tables of one config and element type, on the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from monopath_server.processors.kimi.config import KimiConfig
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


def square_parity_table(config: KimiConfig) -> NDArray[np.uint8]:
    """uint8 [longest resized side]: whether a coordinate lies in an odd square of the background."""
    longest_side_px = config.patch_limit_on_one_side * config.patch_size
    if config.transparent_background is None:
        return np.zeros(longest_side_px, np.uint8)
    square_px = config.transparent_background.chessboard_square_size
    return ((np.arange(longest_side_px) // square_px) & 1).astype(np.uint8)


def parity_ordered_alpha_tables(config: KimiConfig) -> NDArray[np.uint8]:
    """uint8 [2 resized, 2 parity, 256 alpha, 256 stored colour]: the final colour on a square of that parity."""
    background = config.transparent_background
    gray_square_parity = 0 if background is None else gray_parity(background)
    order = [0, 1] if gray_square_parity == 1 else [1, 0]
    return np.stack([alpha_tables(background, is_resized=is_resized)[order] for is_resized in (False, True)])


@dataclass(frozen=True, slots=True)
class DeviceTables:
    """Tensors that both kernels only read."""

    square_parity: torch.Tensor
    alpha_tables: torch.Tensor
    element_table: torch.Tensor
    """[3, 256] raw bits, as integers."""

    @classmethod
    def upload(cls, config: KimiConfig, element_type: ElementType, device: TransformDevice) -> DeviceTables:
        """Make the tables and copy them to the device, on the stream that is active; returns when they are there."""
        raw_bits = element_table(config.image_mean, config.image_std, element_type)
        signed_bits = raw_bits if element_type is ElementType.UINT8 else raw_bits.view(f"i{raw_bits.itemsize}")
        # Plain copies from pageable memory are complete when they return.
        return cls(
            square_parity=torch.tensor(square_parity_table(config)).to(device.torch_device),
            alpha_tables=torch.tensor(parity_ordered_alpha_tables(config)).to(device.torch_device),
            element_table=torch.tensor(signed_bits).to(device.torch_device),
        )
