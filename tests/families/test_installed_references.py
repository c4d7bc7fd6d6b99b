"""The libraries that production runs, where they are installed: torch's own kernel, and transformers' PIL backend."""

from __future__ import annotations

import dataclasses
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.families import FAMILIES
from monopath_server.processors.family import Overrides, ProcessorConfig, overridden
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.qwen_vl.config import QwenVlConfig
from monopath_server.processors.types import (
    AlphaPolicy,
    ElementType,
    GridTHW,
    Padding,
    ResampleKernel,
    Size,
)
from monopath_server.reference import RELEASED_PRESETS
from monopath_server.transforms.cpu.transform import CpuTransform
from monopath_server.transforms.self_check import installed_resample_kernel
from tests.families.golden import QWEN3, cpu_rows
from tests.numerics.strategies import image_of_mode

PIXELS = QwenVlConfig(
    patch_size=1,
    temporal_patch_size=1,
    merge_size=1,
    min_pixels=1,
    max_pixels=1,
    image_mean=(0.5, 0.5, 0.5),
    image_std=(0.5, 0.5, 0.5),
)
"""Rows of one pixel each: an image as it is after the resize."""


def resized(pixels: np.ndarray[Any, np.dtype[np.uint8]], target: Size) -> bytes:
    height_px, width_px, _ = pixels.shape
    words = np.zeros((height_px, width_px, 4), np.uint8)
    words[..., :3] = pixels
    source = PreparedPixels(words, has_alpha=False, already_resized=False, source_mode="RGB", route=ResizeRoute.KERNEL)
    grid = GridTHW(1, target.height_px, target.width_px)
    plan = PatchGridPlan(
        original_size=Size(width_px, height_px),
        resized_size=target,
        token_count=grid.patch_count,
        padding=Padding(0, 0),
        grid_thw=grid,
        patch_size=1,
        temporal_copies=1,
    )
    rows = np.empty(plan.feature_bytes(ElementType.UINT8), np.uint8)
    CpuTransform(PIXELS, ElementType.UINT8).rows_into(source, plan, rows)
    return rows.tobytes()


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(2, 300), st.integers(1, 300), st.integers(0, 1 << 30))
def test_the_resize_of_a_cpu_is_torchs_own(
    width_px: int, height_px: int, new_width_px: int, new_height_px: int, seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height_px, width_px, 3), np.uint8)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    made = torch.nn.functional.interpolate(tensor, (new_height_px, new_width_px), mode="bicubic", antialias=True)
    expected = made[0].permute(1, 2, 0).contiguous().numpy().tobytes()
    assert resized(pixels, Size(new_width_px, new_height_px)) == expected


def transformers_processor(preset: str) -> Any:
    """The class that a checkpoint's file names, in its PIL form, made with the file's own keys."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers", reason="transformers is not installed beside")
        keys = dict(RELEASED_PRESETS[preset])
        name = keys.pop("image_processor_type").removesuffix("Fast")
        return getattr(transformers, f"{name}Pil")(**keys)


@pytest.mark.parametrize("preset", ["qwen2.5-vl", "qwen3-vl", "glm-4.1v", "glm5-next"])
def test_the_processors_of_transformers_give_the_same_bytes(preset: str) -> None:
    processor = transformers_processor(preset)
    [config] = [family.presets[preset] for family in FAMILIES if preset in family.presets]
    # Since 5.21 transformers lays transparent pixels on white.
    config = overridden(config, Overrides(resample_kernel=installed_resample_kernel(), alpha=AlphaPolicy.WHITE))
    generator = random.Random(preset)
    for number in range(24):
        size = (generator.randint(2, 300), generator.randint(2, 300))
        mode = ("RGB", "L", "RGBA", "LA", "P", "RGB+key", "L+key", "P+key")[number % 8]
        image = image_of_mode(mode, *size, seed=number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = processor(images=image, return_tensors="np")
        plan = config.plan(Size(*size))
        assert isinstance(plan, PatchGridPlan)
        assert expected["image_grid_thw"].tolist() == [[1, plan.grid_thw.h, plan.grid_thw.w]], (mode, size)
        assert cpu_rows(image, config, ElementType.FLOAT32).tobytes() == expected["pixel_values"].tobytes(), (
            mode,
            size,
        )


def test_the_kernels_of_pillow_and_of_torch_are_two() -> None:
    image = image_of_mode("RGB", 200, 150, seed=1)

    def rows(kernel: ResampleKernel) -> bytes:
        config: ProcessorConfig = dataclasses.replace(QWEN3, resample_kernel=kernel)
        return cpu_rows(image, config, ElementType.UINT8).tobytes()

    assert len({rows(kernel) for kernel in (ResampleKernel.PILLOW_13, ResampleKernel.ATEN_U8)}) == 2
