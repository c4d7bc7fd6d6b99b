"""The batches that the transforms are timed with, and the bytes that each of them cannot but move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import ElementType, Size
from monopath_server.transforms.pass_order import vertical_first

__all__ = ["Batch", "make_batch", "wanted_batches"]

PIXEL_BYTES = 4
COUNTS = (1, 8, 32, 128)
SIDES_PX = (256, 1024, 2048)
MIXED = (Size(256, 256), Size(1024, 1024), Size(1920, 1080), Size(2048, 2048), Size(1290, 2796), Size(4000, 3000))
MAX_FEATURE_BYTES = 8 << 30
"""A batch with more is left out: the host has to hold it too."""

Item = tuple[PreparedPixels, PatchGridPlan, NDArray[np.uint8]]


@dataclass(frozen=True)
class Batch:
    """Images with memory for their rows."""

    name: str
    config: KimiConfig
    element_type: ElementType
    items: list[Item]

    @property
    def upload_bytes(self) -> int:
        """Pixels."""
        return sum(prepared.pixels.nbytes for prepared, _, _ in self.items)

    @property
    def feature_bytes(self) -> int:
        """Rows."""
        return sum(rows.nbytes for _, _, rows in self.items)

    @property
    def traffic_bytes(self) -> int:
        """What the kernels read and write, each byte once: pixels, the image between two passes, rows."""
        between = sum(_between_bytes(plan, self.config) for _, plan, _ in self.items)
        return self.upload_bytes + 2 * between + self.feature_bytes

    def on_device(self, device: torch.device) -> list[tuple[torch.Tensor, PatchGridPlan]]:
        """Equal images together, as torch code takes them: uint8 [images, 3, height, width]."""
        counts: dict[int, int] = {}
        firsts: dict[int, Item] = {}
        for item in self.items:
            key = id(item[0])
            counts[key] = counts.get(key, 0) + 1
            firsts.setdefault(key, item)
        groups = []
        for key, (prepared, plan, _) in firsts.items():
            pixels = torch.from_numpy(prepared.pixels[..., :3].copy()).to(device).permute(2, 0, 1)
            groups.append((pixels.expand(counts[key], -1, -1, -1).contiguous(), plan))
        return groups


def make_batch(name: str, preset: str | KimiConfig, sizes: list[Size], element_type: ElementType) -> Batch:
    """Noise, which is as fast as any other picture. Equal images share their pixels, and none its rows."""
    config = PRESETS[preset] if isinstance(preset, str) else preset
    prepared = {size: _noise(size) for size in dict.fromkeys(sizes)}
    plans = {size: plan_image(config, size) for size in prepared}
    items = [
        (prepared[size], plans[size], np.empty(plans[size].feature_bytes(element_type), np.uint8)) for size in sizes
    ]
    return Batch(name, config, element_type, items)


def wanted_batches(element_type: ElementType, *, max_count: int = max(COUNTS)) -> Iterator[Batch]:
    """Yield all batches, one at a time: each size and number under each preset, then all sizes together."""
    for preset, config in PRESETS.items():
        for side_px in SIDES_PX:
            size = Size(side_px, side_px)
            for count in (count for count in COUNTS if count <= max_count):
                if plan_image(config, size).feature_bytes(element_type) * count <= MAX_FEATURE_BYTES:
                    yield make_batch(f"{preset} {count} x {side_px}^2", preset, [size] * count, element_type)
        for count in (count for count in (len(MIXED), 32) if count <= max_count):
            sizes = [MIXED[index % len(MIXED)] for index in range(count)]
            yield make_batch(f"{preset} {count} mixed", preset, sizes, element_type)


def _noise(size: Size) -> PreparedPixels:
    pixels = np.random.default_rng(0).integers(0, 256, (size.height_px, size.width_px, PIXEL_BYTES), np.uint8)
    return PreparedPixels(pixels, False, False, "RGB", ResizeRoute.KERNEL)


def _between_bytes(plan: PatchGridPlan, config: KimiConfig) -> int:
    source, target = plan.original_size, plan.resized_size
    if source == target:
        return 0
    if vertical_first(config.resample_kernel, source, target):
        return source.width_px * target.height_px * PIXEL_BYTES
    return target.width_px * source.height_px * PIXEL_BYTES
