"""CLIP and SigLIP: one resize, and for CLIP a centre crop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference.backends import AlphaName, normalized, resized_pixels, rgb_pixels
from monopath_server.reference.config import OrientationName, ResampleKernelName, per_channel
from monopath_server.reference.geometry import ReferencePlan

__all__ = ["FIXED_SIZE_TYPES", "FixedSizeReference"]

FIXED_SIZE_TYPES: Mapping[str, bool] = {
    "CLIPImageProcessor": True,
    "CLIPFeatureExtractor": True,
    "SiglipImageProcessor": False,
}
"""Whether each class is CLIP's, which crops and whose encoder has a class token."""
_CLIP = {
    "size": 224,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_SIGLIP = {"size": {"height": 224, "width": 224}, "image_mean": 0.5, "image_std": 0.5}


@dataclass(frozen=True, slots=True)
class FixedSizeReference:
    """The fields that change a pixel or a token count."""

    size: Mapping[str, int]
    """`height` and `width`, or `shortest_edge` with or without `longest_edge`."""
    crop: tuple[int, int] | None
    """Height and width."""
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]
    is_bilinear: bool
    patch_size: int | None
    class_tokens: int
    resample_kernel: ResampleKernelName = "ATEN_U8"
    alpha: AlphaName = "DROP"
    orientation: OrientationName = "KEEP"

    @classmethod
    def from_checkpoint_json(
        cls, checkpoint: Mapping[str, Any], is_clip: bool, resample_kernel: str, orientation: str, alpha: str
    ) -> FixedSizeReference:
        """Reads the keys of a parsed file; null is absent, and absent is the class default."""
        values = {**(_CLIP if is_clip else _SIGLIP), **{k: v for k, v in checkpoint.items() if v is not None}}
        size = values["size"]
        if isinstance(size, int):
            size = {"height": size, "width": size} if values.get("use_square_size") else {"shortest_edge": size}
        crop = values.get("crop_size", 224)
        if isinstance(crop, int):
            crop = {"height": crop, "width": crop}
        patch_size = values.get("patch_size")
        return cls(
            size=size,
            crop=(crop["height"], crop["width"]) if is_clip and values.get("do_center_crop", True) else None,
            image_mean=per_channel(values["image_mean"]),
            image_std=per_channel(values["image_std"]),
            is_bilinear=values.get("resample", 3) == 2,
            patch_size=patch_size,
            class_tokens=1 if is_clip and patch_size is not None else 0,
            resample_kernel=cast("ResampleKernelName", resample_kernel),
            alpha=cast("AlphaName", alpha),
            orientation=cast("OrientationName", orientation),
        )

    def plan(self, width_px: int, height_px: int) -> ReferencePlan:
        """The class's own arithmetic. Raises ValueError for a size that it refuses."""
        if width_px < 1 or height_px < 1:
            raise ValueError(f"Expected sides of at least 1 pixel, got {width_px} x {height_px}")
        new_height, new_width = self._resized(height_px, width_px)
        if min(new_height, new_width) < 1:
            raise ValueError("height and width must be > 0")
        crop_height, crop_width = self.crop or (new_height, new_width)
        crop = (self._start(new_width, crop_width), self._start(new_height, crop_height), crop_width, crop_height)
        tokens = 0
        if self.patch_size is not None:
            tokens = (crop_height // self.patch_size) * (crop_width // self.patch_size) + self.class_tokens
        return ReferencePlan(
            original_size=(width_px, height_px),
            resized_size=(new_width, new_height),
            padding=(0, 0),
            grid_thw=(0, 0, 0),
            token_count=tokens,
            crop=None if crop == (0, 0, new_width, new_height) else crop,
        )

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        if "shortest_edge" not in self.size:
            return self.size["height"], self.size["width"]
        edge: float = self.size["shortest_edge"]
        longest = self.size.get("longest_edge")
        if longest is not None and max(height, width) / min(height, width) * edge > longest:
            edge = longest * min(height, width) / max(height, width)
        if min(height, width) == round(edge):
            return height, width
        if width <= height:
            return int(edge * height / width), round(edge)
        return round(edge), int(edge * width / height)

    def _start(self, length: int, cropped: int) -> int:
        """Where the crop begins: below zero where zeros come first."""
        if length >= cropped:
            return (length - cropped) // 2
        missing = cropped - length
        return -(missing // 2) if self.resample_kernel == "ATEN_U8" else -math.ceil(missing / 2)

    def images(self, image: Image.Image, plan: ReferencePlan) -> NDArray[np.uint8]:
        """The one image, uint8 [1, height, width, 3]."""
        pixels = rgb_pixels(image, self.alpha)
        resized = resized_pixels(pixels, plan.resized_size, self.resample_kernel, is_bilinear=self.is_bilinear)
        if plan.crop is None:
            return resized[None]
        left, top, width, height = plan.crop
        around = np.zeros((resized.shape[0] + 2 * height, resized.shape[1] + 2 * width, 3), np.uint8)
        around[height:-height, width:-width] = resized
        return around[None, height + top : 2 * height + top, width + left : 2 * width + left]

    def normalize(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Normalises uint8 pixels [..., 3]."""
        return normalized(pixels, self.image_mean, self.image_std, self.resample_kernel)
