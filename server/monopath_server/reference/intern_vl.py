"""InternVL: tiles of one size whose grid has the image's proportions, and a thumbnail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference.backends import AlphaName, normalized, resized_pixels, rgb_pixels
from monopath_server.reference.config import OrientationName, ResampleKernelName, per_channel
from monopath_server.reference.geometry import ReferencePlan

__all__ = ["InternVlReference"]

_CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
_CLIP_STD = [0.26862954, 0.26130258, 0.27577711]
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class InternVlReference:
    """The fields that change a pixel or a token count."""

    side: int
    fewest: int
    most: int
    has_thumbnail: bool
    tokens_of_tile: int
    """0: not known."""
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]
    resample_kernel: ResampleKernelName = "ATEN_U8"
    alpha: AlphaName = "DROP"
    orientation: OrientationName = "KEEP"

    @classmethod
    def from_checkpoint_json(
        cls, checkpoint: Mapping[str, Any], resample_kernel: str, orientation: str, alpha: str
    ) -> InternVlReference:
        """Reads the keys of a parsed file of either kind."""
        values = {key: value for key, value in checkpoint.items() if value is not None}
        if "max_dynamic_patch" in values:
            vision = values["vision_config"]
            side = values.get("force_image_size", vision["image_size"])
            is_dynamic = values["dynamic_image_size"]
            fewest, most = values.get("min_dynamic_patch", 1), values["max_dynamic_patch"]
            has_thumbnail = values["use_thumbnail"] and is_dynamic
            tokens = int((side // vision["patch_size"]) ** 2 * values["downsample_ratio"] ** 2)
            mean, std = _IMAGENET_MEAN, _IMAGENET_STD
        else:
            side = values.get("size", {"height": 384})["height"]
            is_dynamic, has_thumbnail = values.get("crop_to_patches", False), True
            fewest, most = values.get("min_patches", 1), values.get("max_patches", 12)
            tokens = values.get("image_seq_length", 0)
            mean = per_channel(values.get("image_mean", _CLIP_MEAN))
            std = per_channel(values.get("image_std", _CLIP_STD))
        return cls(
            side=side,
            fewest=fewest if is_dynamic else 1,
            most=most if is_dynamic else 1,
            has_thumbnail=has_thumbnail,
            tokens_of_tile=tokens,
            image_mean=mean,
            image_std=std,
            resample_kernel=cast("ResampleKernelName", resample_kernel),
            alpha=cast("AlphaName", alpha),
            orientation=cast("OrientationName", orientation),
        )

    def plan(self, width_px: int, height_px: int) -> ReferencePlan:
        """The class's own choice of tiles. Raises ValueError for a size that it refuses."""
        if width_px < 1 or height_px < 1:
            raise ValueError(f"Expected sides of at least 1 pixel, got {width_px} x {height_px}")
        best, least = (1, 1), float("inf")
        for product in range(self.fewest, self.most + 1):
            for columns in range(1, product + 1):
                rows, rest = divmod(product, columns)
                if rest:
                    continue
                distance = abs(width_px / height_px - columns / rows)
                if distance < least:
                    best, least = (columns, rows), distance
                elif distance == least and width_px * height_px > 0.5 * self.side * self.side * product:
                    best = (columns, rows)
        columns, rows = best
        with_thumbnail = self.has_thumbnail and columns * rows > 1
        return ReferencePlan(
            original_size=(width_px, height_px),
            resized_size=(columns * self.side, rows * self.side),
            padding=(0, 0),
            grid_thw=(0, 0, 0),
            token_count=(columns * rows + with_thumbnail) * self.tokens_of_tile,
            tile_grid=(columns, rows, int(with_thumbnail)),
        )

    def images(self, image: Image.Image, plan: ReferencePlan) -> NDArray[np.uint8]:
        """All tiles, uint8 [tiles, side, side, 3]."""
        pixels = rgb_pixels(image, self.alpha)
        resized = resized_pixels(pixels, plan.resized_size, self.resample_kernel)
        if plan.tile_grid is None:
            raise ValueError("Expected a plan of tiles, got another one")
        columns, rows, has_thumbnail = plan.tile_grid
        side = self.side
        tiles = []
        for index in range(columns * rows):
            left, top = index % columns * side, index // columns * side
            tiles.append(resized[top : top + side, left : left + side])
        if has_thumbnail:
            tiles.append(resized_pixels(pixels, (side, side), self.resample_kernel))
        return np.stack(tiles)

    def normalize(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Normalises uint8 pixels [..., 3]."""
        return normalized(pixels, self.image_mean, self.image_std, self.resample_kernel)
