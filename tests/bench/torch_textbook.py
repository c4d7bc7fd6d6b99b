"""What one would write with torch: a float bicubic with antialiasing, round, clamp, pad, normalise, patchify.

It is what the kernels are timed against. Its bytes are not the checkpoint's: it rounds once instead of after each axis,
and its weights are floats; a level of 255 is what it may be off by in a picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import ElementType

__all__ = ["TORCH_TYPES", "Textbook"]

TORCH_TYPES = {
    ElementType.FLOAT32: torch.float32,
    ElementType.BFLOAT16: torch.bfloat16,
    ElementType.FLOAT16: torch.float16,
}


class Textbook:
    """The transform of one config and element type on torch's device."""

    def __init__(self, config: KimiConfig, element_type: ElementType, device: torch.device) -> None:
        """Raises KeyError for UINT8, which is not normalised."""
        self._type = TORCH_TYPES[element_type]
        self._mean = torch.tensor(config.image_mean, device=device).reshape(1, 3, 1, 1)
        self._std = torch.tensor(config.image_std, device=device).reshape(1, 3, 1, 1)

    def rows(self, pixels: torch.Tensor, plan: PatchGridPlan) -> torch.Tensor:
        """Return rows [images * rows, 3, patch_size, patch_size] of equal images, uint8 [images, 3, height, width]."""
        values = pixels.to(torch.float32)
        size = plan.resized_size
        if size != plan.original_size:
            values = functional.interpolate(
                values, (size.height_px, size.width_px), mode="bicubic", align_corners=False, antialias=True
            )
            values = values.round().clamp(0, 255)
        values = functional.pad(values, (0, plan.padding.right_px, 0, plan.padding.bottom_px))
        values = (values / 255 - self._mean) / self._std
        grid, side_px = plan.grid_thw, plan.patch_size
        patches = values.reshape(len(pixels), 3, grid.h, side_px, grid.w, side_px).permute(0, 2, 4, 1, 3, 5)
        return patches.reshape(-1, 3, side_px, side_px).to(self._type)

    def batch(self, groups: Sequence[tuple[torch.Tensor, PatchGridPlan]]) -> list[torch.Tensor]:
        """Return the rows of each group of equal images."""
        return [self.rows(pixels, plan) for pixels, plan in groups]
