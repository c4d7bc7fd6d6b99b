"""Run by a test: transforms images whose memory lies against pages that nobody may touch."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import random
import sys

import numpy as np
from numpy.typing import NDArray

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType, ResampleKernel, Size
from monopath_server.transforms.cpu.transform import CpuTransform

__all__: list[str] = []

IMAGE_COUNT = 300


class GuardedBuffer:
    """Bytes with an untouchable page before them and behind them; they begin or end at one."""

    def __init__(self, byte_count: int, *, ends_at_guard: bool) -> None:
        page_bytes = mmap.PAGESIZE
        inner_bytes = -(-byte_count // page_bytes) * page_bytes
        self._memory = mmap.mmap(-1, inner_bytes + 2 * page_bytes)
        everything = np.frombuffer(self._memory, np.uint8)
        start = page_bytes + (inner_bytes - byte_count if ends_at_guard else 0)
        self.bytes: NDArray[np.uint8] = everything[start : start + byte_count]
        library = ctypes.CDLL(None, use_errno=True)
        for guard in (everything.ctypes.data, everything.ctypes.data + page_bytes + inner_bytes):
            if library.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page_bytes), 0):
                raise OSError(ctypes.get_errno(), "mprotect")


def random_size(generator: random.Random) -> Size:
    """Return a size that is plain, thin, flat or a whole number of windows."""
    shapes = (
        (generator.randint(1, 120), generator.randint(1, 120)),
        (generator.randint(1, 4), generator.randint(1, 400)),
        (generator.randint(1, 400), generator.randint(1, 4)),
        (28 * generator.randint(1, 4), 28 * generator.randint(1, 4)),
    )
    return Size(*generator.choice(shapes))


def main() -> None:
    """Transform `IMAGE_COUNT` images; a wrong access kills the process."""
    generator = random.Random(3)
    pixels_source = np.random.default_rng(3)
    for _ in range(IMAGE_COUNT):
        config = dataclasses.replace(
            PRESETS["kimi-k3"],
            patch_size=generator.choice((14, 14, 14, 7, 16)),
            in_patch_limit=generator.choice((4, 16, 64, 16_384)),
            patch_limit_on_one_side=generator.choice((8, 512)),
            resample_kernel=generator.choice(tuple(ResampleKernel)),
        )
        element_type = generator.choice(tuple(ElementType))
        size = random_size(generator)
        plan = plan_image(config, size)
        source = GuardedBuffer(size.width_px * size.height_px * 4, ends_at_guard=generator.random() < 0.5)
        source.bytes[:] = pixels_source.integers(0, 256, source.bytes.size, dtype=np.uint8)
        prepared = PreparedPixels(
            source.bytes.reshape(size.height_px, size.width_px, 4),
            has_alpha=generator.random() < 0.4,
            already_resized=False,
            source_mode="RGBA",
            route=ResizeRoute.KERNEL,
        )
        rows = GuardedBuffer(plan.feature_bytes(element_type), ends_at_guard=generator.random() < 0.7)
        CpuTransform(config, element_type).rows_into(prepared, plan, rows.bytes)
    sys.stdout.write(f"{IMAGE_COUNT} images\n")


if __name__ == "__main__":
    main()
