"""Kimi-VL: the image is resized and padded in its own mode, and only then becomes RGB."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference.color import drop_alpha, resize_image
from monopath_server.reference.config import OrientationName, ResampleKernelName, one_of, per_channel, square_side
from monopath_server.reference.geometry import ReferencePlan

__all__ = ["KimiVlReference"]


@dataclass(frozen=True, slots=True)
class KimiVlReference:
    """The fields that change a pixel or a token count."""

    patch_size: int
    merge_kernel_size: int
    in_token_limit: int
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]
    pad_input: bool = True
    resample_kernel: ResampleKernelName = "PILLOW_13"
    orientation: OrientationName = "KEEP"

    @classmethod
    def from_checkpoint_json(
        cls, checkpoint: Mapping[str, Any], resample_kernel: str, orientation: str
    ) -> KimiVlReference:
        """Reads the keys of a parsed file."""
        return cls(
            patch_size=int(checkpoint["patch_size"]),
            merge_kernel_size=square_side(checkpoint["merge_kernel_size"]),
            in_token_limit=int(checkpoint["in_token_limit"]),
            image_mean=per_channel(checkpoint["image_mean"]),
            image_std=per_channel(checkpoint["image_std"]),
            pad_input=bool(checkpoint["pad_input"]),
            resample_kernel=cast("ResampleKernelName", resample_kernel),
            orientation=cast("OrientationName", orientation),
        )

    def __post_init__(self) -> None:
        """Refuses names without a meaning."""
        one_of("resample kernel", self.resample_kernel, ("PILLOW_11", "PILLOW_12_2", "PILLOW_13"))
        one_of("orientation", self.orientation, get_args(OrientationName))

    def plan(self, width_px: int, height_px: int) -> ReferencePlan:
        """The checkpoint's own arithmetic. Raises ValueError for a size that it refuses."""
        if width_px < 1 or height_px < 1:
            raise ValueError(f"Expected sides of at least 1 pixel, got {width_px} x {height_px}")
        patch, factor = self.patch_size, self.patch_size * self.merge_kernel_size
        new_width, new_height = width_px, height_px
        if (width_px // patch) * (height_px // patch) > self.in_token_limit:
            scale = math.sqrt(self.in_token_limit / ((width_px // patch) * (height_px // patch)))
            new_width, new_height = int(width_px * scale), int(height_px * scale)
            if min(new_width, new_height) < 1:
                raise ValueError("height and width must be > 0")
        if not self.pad_input:
            return self._cropped((width_px, height_px), (new_width, new_height))
        padding = ((factor - new_width % factor) % factor, (factor - new_height % factor) % factor)
        grid = ((new_height + padding[1]) // patch, (new_width + padding[0]) // patch)
        if max(grid) >= 512:
            raise ValueError("Exceed pos emb")
        return ReferencePlan(
            original_size=(width_px, height_px),
            resized_size=(new_width, new_height),
            padding=padding,
            grid_thw=(1, *grid),
            token_count=grid[0] * grid[1] // self.merge_kernel_size**2,
        )

    def _cropped(self, original: tuple[int, int], resized: tuple[int, int]) -> ReferencePlan:
        patch, merge = self.patch_size, self.merge_kernel_size
        columns, rows = (side // patch for side in resized)
        if columns * rows == 0 or columns % merge or rows % merge:
            raise ValueError(f"Expected windows of {merge} patches, got {columns} x {rows} patches")
        if max(columns, rows) >= 512:
            raise ValueError("Exceed pos emb")
        kept = (columns * patch, rows * patch)
        left, top = (round((side - crop) / 2) for side, crop in zip(resized, kept, strict=True))
        return ReferencePlan(
            original_size=original,
            resized_size=resized,
            padding=(0, 0),
            grid_thw=(1, rows, columns),
            token_count=rows * columns // merge**2,
            crop=(left, top, *kept),
        )

    def rgb(self, image: Image.Image, plan: ReferencePlan) -> NDArray[np.uint8]:
        """RGB pixels [height, width, 3] of the padded or cropped size."""
        resized = resize_image(image, plan, self.resample_kernel)
        if plan.crop is not None:
            left, top, width_px, height_px = plan.crop
            return drop_alpha(resized)[top : top + height_px, left : left + width_px]
        width_px, height_px = (side + added for side, added in zip(plan.resized_size, plan.padding, strict=True))
        if resized.mode in ("RGB", "RGBA", "L", "LA"):
            pixels = drop_alpha(resized)
            canvas = np.zeros((height_px, width_px, 3), np.uint8)
            canvas[: pixels.shape[0], : pixels.shape[1]] = pixels
            return canvas
        padded = Image.new(resized.mode, (width_px, height_px), 0)
        if resized.mode in ("P", "PA"):
            padded.putpalette(resized.getpalette() or [])
        padded.paste(resized, (0, 0))
        return drop_alpha(padded)

    def normalize(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """torchvision's ToTensor and Normalize, of uint8 pixels [..., 3]."""
        mean, std = np.array(self.image_mean, np.float32), np.array(self.image_std, np.float32)
        return (pixels.astype(np.float32) / np.float32(255) - mean) / std

    def rows(self, canvas: NDArray[Any]) -> NDArray[Any]:
        """Cuts [height, width, 3] into patches [rows, 3, patch, patch], in raster order."""
        patch = self.patch_size
        height, width = canvas.shape[0] // patch, canvas.shape[1] // patch
        grid = canvas.reshape(height, patch, width, patch, 3).transpose(0, 2, 4, 1, 3)
        return np.ascontiguousarray(grid.reshape(height * width, 3, patch, patch))
