"""Sizes, grids and token counts of the families: the measured tables, the traps, and the reference for many sizes."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.glm_vl.family import PRESETS as GLM_PRESETS
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.types import Crop, GridTHW, Padding, ResampleKernel, Size
from monopath_server.reference import RELEASED_PRESETS, reference_config, reference_plan
from tests.families.golden import GLM5, KIMI_VL, QWEN2, QWEN3, SIZES, in_reference_words

GLM = GLM_PRESETS["glm-4.1v"]
CONFIGS: dict[str, ProcessorConfig] = {
    "qwen2.5-vl": QWEN2,
    "class default": dataclasses.replace(QWEN2, max_pixels=1_003_520),
    "qwen3-vl": QWEN3,
    "glm-4.1v": GLM,
}
GLM5_SIZES = [
    ((1, 1), (112, 112), (112, 112), 16),
    ((20, 20), (112, 112), (112, 112), 16),
    ((28, 28), (112, 112), (112, 112), 16),
    ((100, 100), (112, 112), (112, 112), 16),
    ((112, 112), (112, 112), (112, 112), 16),
    ((113, 111), (114, 111), (140, 112), 20),
    ((500, 1), (504, 1), (504, 28), 18),
    ((2000, 10), (2000, 10), (2016, 28), 72),
    ((300, 200), (300, 200), (308, 224), 88),
    ((2048, 1365), (2048, 1365), (2072, 1372), 3626),
    ((3000, 4000), (2156, 2874), (2156, 2884), 7931),
    ((4000, 3000), (2874, 2156), (2884, 2156), 7931),
    ((4096, 4096), (2492, 2492), (2492, 2492), 7921),
    ((4320, 7680), (1874, 3332), (1876, 3332), 7973),
]
KIMI_VL_SIZES = [
    ((1, 1), (1, 1), (2, 2)),
    ((1, 4000), (1, 4000), (286, 2)),
    ((28, 28), (28, 28), (2, 2)),
    ((29, 27), (29, 27), (2, 4)),
    ((896, 896), (896, 896), (64, 64)),
    ((897, 897), (897, 897), (66, 66)),
    ((910, 910), (896, 896), (64, 64)),
    ((1024, 1024), (897, 897), (66, 66)),
    ((1792, 1792), (896, 896), (64, 64)),
    ((1920, 1080), (1196, 672), (48, 86)),
    ((4000, 3000), (1036, 777), (56, 74)),
    ((8000, 6000), (1035, 776), (56, 74)),
    ((7140, 14), (7140, 14), (2, 510)),
]


def resized(config: ProcessorConfig, width_px: int, height_px: int) -> tuple[int, int]:
    size = config.plan(Size(width_px, height_px)).resized_size
    return size.width_px, size.height_px


@pytest.mark.parametrize("name", CONFIGS)
def test_sizes_are_the_measured_ones(name: str) -> None:
    config = CONFIGS[name]
    for row in SIZES:
        size = Size(row["width_px"], row["height_px"])
        if row[name] is None:
            with pytest.raises(ItemFault, match=r"Expected a side at most 200 times the other, got 20[01]\.") as caught:
                config.plan(size)
            assert caught.value.reason is ItemReason.IMAGE_SIZE_INVALID
            continue
        plan = config.plan(size)
        assert isinstance(plan, PatchGridPlan)
        grid = plan.grid_thw
        found = [plan.resized_size.width_px, plan.resized_size.height_px, grid.h, grid.w, plan.token_count]
        assert found == row[name], size
        assert (grid.t, plan.padding.right_px, plan.padding.bottom_px) == (1, 0, 0)
    assert len(SIZES) == 45


@pytest.mark.parametrize(("size", "content", "canvas", "token_count"), GLM5_SIZES, ids=str)
def test_glm5_next_has_the_measured_canvas(
    size: tuple[int, int], content: tuple[int, int], canvas: tuple[int, int], token_count: int
) -> None:
    plan = GLM5.plan(Size(*size))
    assert (plan.resized_size.width_px, plan.resized_size.height_px) == content
    padded = plan.resized_size.width_px + plan.padding.right_px, plan.resized_size.height_px + plan.padding.bottom_px
    assert padded == canvas
    assert (plan.grid_thw.w * 14, plan.grid_thw.h * 14) == canvas
    assert plan.token_count == token_count


@pytest.mark.parametrize(("size", "content", "grid"), KIMI_VL_SIZES, ids=str)
def test_kimi_vl_has_the_measured_sizes(size: tuple[int, int], content: tuple[int, int], grid: tuple[int, int]) -> None:
    plan = KIMI_VL.plan(Size(*size))
    assert (plan.resized_size.width_px, plan.resized_size.height_px) == content
    assert (plan.grid_thw.h, plan.grid_thw.w) == grid
    assert plan.token_count == grid[0] * grid[1] // 4


@pytest.mark.parametrize("size", [(7154, 14), (7168, 14), (20_000, 10)])
def test_kimi_vl_refuses_what_has_no_position(size: tuple[int, int]) -> None:
    with pytest.raises(ItemFault, match="Expected fewer than 512 patches on one side"):
        KIMI_VL.plan(Size(*size))


def test_kimi_vl_refuses_a_side_that_the_resize_would_lose() -> None:
    tiny = dataclasses.replace(KIMI_VL, patch_size=1, in_token_limit=4)
    with pytest.raises(ItemFault, match="Expected at least 1 pixel after the resize, got 20 x 0"):
        tiny.plan(Size(100, 1))


@pytest.mark.parametrize(
    ("config", "size", "expected"),
    [
        (QWEN2, (42, 98), (56, 112)),
        (QWEN2, (70, 126), (56, 112)),
        (dataclasses.replace(QWEN3, min_pixels=1), (48, 80), (64, 64)),
        (QWEN2, (19, 19), (84, 84)),
        (QWEN2, (38, 38), (84, 84)),
        (QWEN2, (76, 19), (140, 56)),
        (QWEN2, (23, 23), (56, 56)),
        (QWEN2, (3604, 3604), (3584, 3584)),
        (QWEN2, (3585, 3585), (3584, 3584)),
        *((QWEN2, (side, side), (3556, 3556)) for side in (3621, 3624, 3628, 3631, 5000)),
        (QWEN3, (343, 7), (1824, 64)),
    ],
)
def test_the_traps_of_smart_resize_are_sprung(
    config: ProcessorConfig, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert resized(config, *size) == expected


def test_exact_arithmetic_would_give_other_token_counts() -> None:
    """What the reference does is not what its formula says: 19 x 19 grows by 56/19 exactly, to 56 x 56."""
    exact_cells = Fraction(19) * Fraction(56, 19) / 28
    assert exact_cells == 2
    assert resized(QWEN2, 19, 19) == (84, 84)


@pytest.mark.parametrize("config", [QWEN2, QWEN3, GLM], ids=lambda config: config.family)
def test_a_ratio_of_200_passes_and_201_does_not(config: ProcessorConfig) -> None:
    assert config.plan(Size(100, 20_000)).token_count > 0
    with pytest.raises(ItemFault, match="200 times"):
        config.plan(Size(100, 20_001))


@pytest.mark.parametrize("config", [QWEN2, QWEN3, GLM, GLM5, KIMI_VL], ids=lambda config: config.family)
def test_a_side_of_no_pixel_is_refused(config: ProcessorConfig) -> None:
    for size in (Size(0, 10), Size(10, 0)):
        with pytest.raises(ItemFault, match="Expected sides of at least 1 pixel"):
            config.plan(size)


def test_every_short_side_of_glm_is_enlarged_to_one_window() -> None:
    for side in range(1, 28):
        assert min(resized(dataclasses.replace(GLM, min_pixels=1), side, 3 * side)) == 28


def test_the_bounds_of_glm_count_two_frames() -> None:
    half = dataclasses.replace(QWEN2, min_pixels=GLM.min_pixels // 2, max_pixels=GLM.max_pixels // 2)
    for width_px in range(28, 4000, 61):
        for height_px in (28, 333, 1000, 2500, 3999):
            assert resized(GLM, width_px, height_px) == resized(half, width_px, height_px)


def test_the_expand_factor_belongs_to_one_backend() -> None:
    expanded = dataclasses.replace(GLM5, patch_expand_factor=2)
    torchvision = expanded.plan(Size(300, 200)).grid_thw
    pillow = dataclasses.replace(expanded, resample_kernel=ResampleKernel.PILLOW_13).plan(Size(300, 200)).grid_thw
    assert (torchvision.h, torchvision.w) == (16, 24)
    assert (pillow.h, pillow.w) == (16, 22)


def test_a_bound_below_one_window_is_refused_by_the_image() -> None:
    assert dataclasses.replace(GLM5, min_image_tokens=1, max_image_tokens=1).plan(Size(999, 5)).token_count == 1


@pytest.mark.parametrize("preset", sorted(RELEASED_PRESETS))
def test_300_by_300_sizes_have_the_plan_of_the_reference(preset: str) -> None:
    config: Any = PRESETS[preset]
    reference = reference_config(RELEASED_PRESETS[preset], config.arithmetic.resample_kernel.name)
    # Every length up to 150, then steps of 26 pixels.
    for width_px in _LENGTHS:
        for height_px in _LENGTHS:
            try:
                expected = reference_plan(reference, width_px, height_px)
            except ValueError:
                with pytest.raises(ItemFault):
                    config.plan(Size(width_px, height_px))
                continue
            assert in_reference_words(config.plan(Size(width_px, height_px))) == expected


_LENGTHS = [*range(1, 151), *range(163, 163 + 150 * 26, 26)]


def test_there_are_300_lengths() -> None:
    assert len(_LENGTHS) == 300
    assert max(_LENGTHS) > 4000


def test_the_server_and_the_reference_share_no_code() -> None:
    reference = Path(__file__).parents[2] / "server" / "monopath_server" / "reference"
    for path in reference.glob("*.py"):
        imported = set(re.findall(r"from monopath_server\.(\w+)", path.read_text()))
        assert imported <= {"reference"}, path.name


def test_kimi_vl_without_padding_keeps_the_middle_and_only_whole_windows() -> None:
    cropped = dataclasses.replace(KIMI_VL, in_token_limit=64, pad_input=False)
    plan = cropped.plan(Size(225, 223))
    assert (plan.resized_size, plan.grid_thw, plan.token_count) == (Size(116, 115), GridTHW(1, 8, 8), 16)
    # Halves of a pixel go to the even offset: 4 / 2 and 3 / 2.
    assert plan.crop == Crop(2, 2, Size(112, 112))
    assert plan.padding == Padding(0, 0)
    with pytest.raises(ItemFault, match="Expected whole windows of 2 x 2 patches after the crop, got 3 x 2 patches"):
        cropped.plan(Size(43, 28))
    with pytest.raises(ItemFault, match="got 0 x 2 patches"):
        cropped.plan(Size(13, 28))


def test_plans_of_kimi_vl_without_padding_equal_the_references() -> None:
    config = dataclasses.replace(KIMI_VL, in_token_limit=64, pad_input=False)
    checkpoint = {**RELEASED_PRESETS["kimi-vl-a3b"], "in_token_limit": 64, "pad_input": False}
    reference = reference_config(checkpoint, "PILLOW_13")
    planned_count = 0
    for width_px in range(1, 400, 7):
        for height_px in range(1, 400, 7):
            try:
                expected = reference_plan(reference, width_px, height_px)
            except ValueError:
                with pytest.raises(ItemFault):
                    config.plan(Size(width_px, height_px))
                continue
            planned_count += 1
            assert in_reference_words(config.plan(Size(width_px, height_px))) == expected
    assert planned_count > 700
