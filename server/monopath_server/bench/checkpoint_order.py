"""The same features the way a checkpoint's own processor makes them: Pillow and numpy, one operation after another."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import FillStage, ImagePlan

__all__ = ["checkpoint_rows"]


def checkpoint_rows(data: bytes, plan: ImagePlan, config: KimiConfig) -> NDArray[np.float32]:
    """Return `pixel_values` of a file without transparency: float32 [rows, 3, patch_size, patch_size].

    Raises:
        ValueError: the image has an alpha channel, which would have to be composited, or its plan has no patch grid.
    """
    if not isinstance(plan, PatchGridPlan):
        raise ValueError(f"Expected a plan of a patch grid, got one of shape {plan.shape}")
    image: Image.Image = Image.open(io.BytesIO(data))
    if "A" in image.getbands():
        raise ValueError(f"Expected an image without transparency, got one of mode {image.mode}")
    if config.transparent_fill_stage is FillStage.BEFORE_RESIZE:
        image = image.convert("RGB")
    image = image.resize((plan.resized_size.width_px, plan.resized_size.height_px), Image.Resampling.BICUBIC)
    pixels = np.asarray(image.convert("RGB"))
    pixels = np.pad(pixels, ((0, plan.padding.bottom_px), (0, plan.padding.right_px), (0, 0)))
    values = (pixels / 255.0).astype(np.float32)
    values -= np.array(config.image_mean)
    values *= 1.0 / np.array(config.image_std)
    side_px, grid = plan.patch_size, plan.grid_thw
    patches = values.reshape(grid.t * grid.h, side_px, grid.w, side_px, 3).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(patches).reshape(plan.shape)
