"""The libraries that production runs, where they are installed: torch's own kernel, and transformers' PIL backend."""

from __future__ import annotations

import dataclasses
import json
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.checkpoint_json import parse_checkpoint_json
from monopath_server.processors.families import FAMILIES
from monopath_server.processors.family import Overrides, ProcessorConfig, overridden
from monopath_server.processors.fixed_size.geometry import ExactResize
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.presets import PRESETS
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
from tests.families.golden import QWEN3, SIGLIP_BILINEAR, cpu_rows
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


def transformers_processor(preset: str, beside: tuple[str, ...] = ()) -> Any:
    """The class that a checkpoint's file names, in its PIL form, made with the file's own keys."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers", reason="transformers is not installed beside")
        # Those of the model stand in no file of the class's own.
        keys = {key: value for key, value in RELEASED_PRESETS[preset].items() if key not in beside}
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


@pytest.mark.parametrize(
    "preset", ["clip-vit-l-14", "clip-vit-l-14-336", "siglip-so400m-14-224", "siglip-so400m-14-384", "internvl3-hf"]
)
def test_the_processors_of_fixed_sizes_and_tiles_give_the_same_bytes(preset: str) -> None:
    processor = transformers_processor(preset, beside=("patch_size", "image_seq_length"))
    config = overridden(
        PRESETS[preset], Overrides(resample_kernel=installed_resample_kernel(), alpha=AlphaPolicy.WHITE)
    )
    generator = random.Random(preset)
    sizes = [(generator.randint(2, 300), generator.randint(2, 300)) for _ in range(14)]
    for number, size in enumerate([*sizes, (700, 10), (10, 700)]):
        mode = ("RGB", "L", "RGBA", "LA", "P", "RGB+key", "L+key", "P+key")[number % 8]
        image = image_of_mode(mode, *size, seed=number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = processor(images=image, return_tensors="np")
        assert config.plan(Size(*size)).shape == expected["pixel_values"].shape, (mode, size)
        assert cpu_rows(image, config, ElementType.FLOAT32).tobytes() == expected["pixel_values"].tobytes(), (
            mode,
            size,
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"size": {"shortest_edge": 20}, "crop_size": {"height": 25, "width": 24}},
        {"size": {"shortest_edge": 60, "longest_edge": 90}, "crop_size": {"height": 48, "width": 61}},
        {"size": {"height": 31, "width": 57}, "crop_size": {"height": 33, "width": 40}, "resample": 2},
        {"size": 40, "crop_size": 40},
        {"size": {"height": 31, "width": 57}, "do_center_crop": False},
    ],
    ids=str,
)
def test_every_form_of_a_size_means_what_it_means_there(changes: dict[str, Any]) -> None:
    document = {**RELEASED_PRESETS["clip-vit-l-14"], **changes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers", reason="transformers is not installed beside")
        kept = {key: value for key, value in document.items() if key not in ("image_processor_type", "patch_size")}
        processor = transformers.CLIPImageProcessorPil(**kept)
    config = parse_checkpoint_json(
        json.dumps(document), Overrides(resample_kernel=installed_resample_kernel(), alpha=AlphaPolicy.WHITE)
    ).config
    generator = random.Random(str(changes))
    for number in range(20):
        size = (generator.randint(2, 120), generator.randint(2, 120))
        image = image_of_mode("RGB", *size, seed=number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = processor(images=image, return_tensors="np")["pixel_values"]
        assert cpu_rows(image, config, ElementType.FLOAT32).tobytes() == expected.tobytes(), size


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(2, 300), st.integers(1, 300), st.integers(0, 1 << 30))
def test_the_bilinear_resize_of_a_cpu_is_torchs_own(
    width_px: int, height_px: int, new_width_px: int, new_height_px: int, seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height_px, width_px, 3), np.uint8)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    made = torch.nn.functional.interpolate(tensor, (new_height_px, new_width_px), mode="bilinear", antialias=True)
    config = dataclasses.replace(
        SIGLIP_BILINEAR, resize=ExactResize(new_height_px, new_width_px), resample_kernel=ResampleKernel.ATEN_U8
    )
    assert cpu_rows(Image.fromarray(pixels), config, ElementType.UINT8).tobytes() == made[0].numpy().tobytes()


def test_the_kernels_of_pillow_and_of_torch_are_two() -> None:
    image = image_of_mode("RGB", 200, 150, seed=1)

    def rows(kernel: ResampleKernel) -> bytes:
        config: ProcessorConfig = dataclasses.replace(QWEN3, resample_kernel=kernel)
        return cpu_rows(image, config, ElementType.UINT8).tobytes()

    assert len({rows(kernel) for kernel in (ResampleKernel.PILLOW_13, ResampleKernel.ATEN_U8)}) == 2
