"""Qwen-VL, GLM-4.xV and GLM5-Next: RGB first, one resize, and rows grouped by the windows that become tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference.backends import AlphaName, normalized, resized_pixels, rgb_pixels
from monopath_server.reference.config import OrientationName, ResampleKernelName, one_of, per_channel
from monopath_server.reference.geometry import ReferencePlan

__all__ = ["WINDOWED_TYPES", "WindowedReference"]

Rule = Literal["qwen", "glm", "glm_next"]

WINDOWED_TYPES: Mapping[str, Rule] = {
    "Qwen2VLImageProcessor": "qwen",
    "Glm4vImageProcessor": "glm",
    "Glm46VImageProcessor": "glm",
    "Glm5NextImageProcessor": "glm_next",
}
_CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
_CLIP_STD = [0.26862954, 0.26130258, 0.27577711]
_AREAS = {"qwen": (3136, 1003520), "glm": (12544, 11760000), "glm_next": (0, 0)}


@dataclass(frozen=True, slots=True)
class WindowedReference:
    """The fields that change a pixel or a token count."""

    rule: Rule
    patch_size: int
    merge_size: int
    temporal_patch_size: int
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]
    smallest_area: int
    largest_area: int
    expand_factor: int = 1
    fewest_tokens: int = 16
    most_tokens: int = 8000
    resample_kernel: ResampleKernelName = "ATEN_U8"
    alpha: AlphaName = "DROP"
    orientation: OrientationName = "KEEP"

    @classmethod
    def from_checkpoint_json(
        cls, checkpoint: Mapping[str, Any], rule: Rule, resample_kernel: str, orientation: str, alpha: str
    ) -> WindowedReference:
        """Reads the keys of a parsed file; null is absent, and absent is the class default."""
        values = {key: value for key, value in checkpoint.items() if value is not None}
        smallest, largest = _AREAS[rule]
        if rule != "glm_next" and "size" in values:
            smallest, largest = values["size"]["shortest_edge"], values["size"]["longest_edge"]
        if rule == "qwen":
            smallest, largest = values.get("min_pixels", smallest), values.get("max_pixels", largest)
        return cls(
            rule=rule,
            patch_size=int(values.get("patch_size", 14)),
            merge_size=int(values.get("merge_size", 2)),
            temporal_patch_size=int(values.get("temporal_patch_size", 2)),
            image_mean=per_channel(values.get("image_mean", _CLIP_MEAN)),
            image_std=per_channel(values.get("image_std", _CLIP_STD)),
            smallest_area=int(smallest),
            largest_area=int(largest),
            expand_factor=int(values.get("patch_expand_factor", 1)),
            fewest_tokens=int(values.get("min_image_tokens", 16)),
            most_tokens=int(values.get("max_image_tokens", 8000)),
            resample_kernel=cast("ResampleKernelName", resample_kernel),
            orientation=cast("OrientationName", orientation),
            alpha=cast("AlphaName", alpha),
        )

    def __post_init__(self) -> None:
        """Refuses names without a meaning."""
        one_of("resample kernel", self.resample_kernel, get_args(ResampleKernelName))
        one_of("orientation", self.orientation, get_args(OrientationName))
        one_of("alpha", self.alpha, get_args(AlphaName))

    def plan(self, width_px: int, height_px: int) -> ReferencePlan:
        """The class's own arithmetic in double precision. Raises ValueError for a size that it refuses."""
        if width_px < 1 or height_px < 1:
            raise ValueError(f"Expected sides of at least 1 pixel, got {width_px} x {height_px}")
        factor = self.patch_size * self.merge_size
        if self.rule == "glm_next":
            content, canvas = self._canvas(height_px, width_px)
        else:
            canvas = content = self._smart_resize(height_px, width_px, factor)
        (new_height, new_width), (canvas_height, canvas_width) = content, canvas
        return ReferencePlan(
            original_size=(width_px, height_px),
            resized_size=(new_width, new_height),
            padding=(canvas_width - new_width, canvas_height - new_height),
            grid_thw=(1, canvas_height // self.patch_size, canvas_width // self.patch_size),
            token_count=(canvas_height // factor) * (canvas_width // factor),
        )

    def _smart_resize(self, height: int, width: int, factor: int) -> tuple[int, int]:
        frames = 1
        if self.rule == "glm":
            frames = self.temporal_patch_size
            if height < factor or width < factor:
                scale = max(factor / height, factor / width)
                height, width = int(height * scale), int(width * scale)
        ratio = max(height, width) / min(height, width)
        if ratio > 200:
            raise ValueError(f"absolute aspect ratio must be smaller than 200, got {ratio}")
        h_bar, w_bar = round(height / factor) * factor, round(width / factor) * factor
        if frames * h_bar * w_bar > self.largest_area:
            beta = math.sqrt((frames * height * width) / self.largest_area)
            h_bar = max(factor, math.floor(height / beta / factor) * factor)
            w_bar = max(factor, math.floor(width / beta / factor) * factor)
        elif frames * h_bar * w_bar < self.smallest_area:
            beta = math.sqrt(self.smallest_area / (frames * height * width))
            h_bar = math.ceil(height * beta / factor) * factor
            w_bar = math.ceil(width * beta / factor) * factor
        return h_bar, w_bar

    def _canvas(self, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """(height, width) of the content and of the canvas. Pillow's backend has no expand factor."""
        expand = self.expand_factor if self.resample_kernel == "ATEN_U8" else 1
        factor = self.patch_size * self.merge_size * expand
        frames = self.temporal_patch_size
        least, most = (count * frames * factor * factor for count in (self.fewest_tokens, self.most_tokens))

        def aligned(length: int) -> int:
            return math.ceil(length / factor) * factor

        rows, columns = aligned(height), aligned(width)
        if frames * rows * columns < least:
            scale = math.sqrt(least / (frames * height * width))
            rows, columns = aligned(max(1, math.ceil(height * scale))), aligned(max(1, math.ceil(width * scale)))
        if frames * rows * columns > most:
            low, high, (rows, columns) = 1, height, (factor, factor)
            while low <= high:
                middle = (low + high) // 2
                other = max(1, math.floor((width * middle) / height))
                if frames * aligned(middle) * aligned(other) <= most:
                    rows, columns = aligned(middle), aligned(other)
                    low = middle + 1
                else:
                    high = middle - 1
        if frames * rows * columns > most:
            raise ValueError(f"max_pixels={most} is too small")
        scale = min(rows / height, columns / width)
        if frames * height * width >= least:
            scale = min(1.0, scale)
        content = max(1, min(rows, math.floor(height * scale))), max(1, min(columns, math.floor(width * scale)))
        return content, (rows, columns)

    def rgb(self, image: Image.Image, plan: ReferencePlan) -> NDArray[np.uint8]:
        """RGB pixels [height, width, 3] of the resized size."""
        return resized_pixels(rgb_pixels(image, self.alpha), plan.resized_size, self.resample_kernel)

    def normalize(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Normalises uint8 pixels [..., 3]."""
        return normalized(pixels, self.image_mean, self.image_std, self.resample_kernel)

    def rows(self, canvas: NDArray[Any]) -> NDArray[Any]:
        """Cuts [height, width, 3] into rows [rows, 3, frames, patch, patch], window by window."""
        patch, merge = self.patch_size, self.merge_size
        height, width = canvas.shape[0] // patch, canvas.shape[1] // patch
        grid = canvas.reshape(height // merge, merge, patch, width // merge, merge, patch, 3)
        rows = grid.transpose(0, 3, 1, 4, 6, 2, 5).reshape(height * width, 3, 1, patch, patch)
        return np.ascontiguousarray(np.repeat(rows, self.temporal_patch_size, axis=2))
