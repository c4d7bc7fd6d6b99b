"""Plans: from an image's size to its resized size, padding, grid and tokens."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import PILLOW_KERNELS, ElementType, GridTHW, Padding, ResampleKernel, Size
from monopath_server.transforms.pass_order import vertical_first

DATA: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data" / "kimi_plans.json").read_text())
K25 = PRESETS["kimi-k2.5"]
TINY_LIMITS = dataclasses.replace(K25, in_patch_limit=64, patch_limit_on_one_side=16)


def published_config(name: str) -> KimiConfig:
    patch_size, in_patch_limit, side_limit = DATA["limits"][name]
    return dataclasses.replace(
        K25, patch_size=patch_size, in_patch_limit=in_patch_limit, patch_limit_on_one_side=side_limit
    )


def expected_resized(config: KimiConfig, width_px: int, height_px: int) -> tuple[int, int]:
    """The formula of the spec, written down a second time."""
    side = config.patch_limit_on_one_side * config.patch_size
    columns = max(1.0, float(width_px // config.patch_size))
    rows = max(1.0, float(height_px // config.patch_size))
    factors = (1.0, (config.in_patch_limit / (columns * rows)) ** 0.5, side / width_px, side / height_px)
    scaled = (math.floor(length * min(factors)) for length in (width_px, height_px))
    resized_width, resized_height = (min(max(length, 1), side) for length in scaled)
    return resized_width, resized_height


def test_the_published_table_is_complete() -> None:
    assert len(DATA["plans"]) == 3 * 54 + 3
    assert sum(plan["pillow_13_vertical_first"] for plan in DATA["plans"]) == 7


@pytest.mark.parametrize(
    "plan", DATA["plans"], ids=lambda plan: f"{plan['config']}-{plan['size'][0]}x{plan['size'][1]}"
)
def test_a_plan_is_the_published_one(plan: dict[str, Any]) -> None:
    actual = plan_image(published_config(plan["config"]), Size(*plan["size"]))

    assert actual.resized_size == Size(*plan["resized"])
    assert actual.padding == Padding(*plan["padding"])
    assert actual.grid_thw == GridTHW(*plan["grid_thw"])
    assert actual.token_count == plan["token_count"]
    source, target = actual.original_size, actual.resized_size
    has_two_passes = source.width_px != target.width_px and source.height_px != target.height_px
    is_vertical_first = has_two_passes and vertical_first(ResampleKernel.PILLOW_13, source, target)
    assert is_vertical_first == plan["pillow_13_vertical_first"]


@pytest.mark.parametrize("config", [K25, TINY_LIMITS], ids=["k2.5", "tiny-limits"])
def test_every_size_up_to_300_is_planned_by_the_formula(config: KimiConfig) -> None:
    window_px = config.patch_size * config.merge_kernel_size
    for width_px in range(1, 301):
        for height_px in range(1, 301):
            plan = plan_image(config, Size(width_px, height_px))
            resized = plan.resized_size
            assert (resized.width_px, resized.height_px) == expected_resized(config, width_px, height_px)
            padded_width_px = plan.grid_thw.w * config.patch_size
            padded_height_px = plan.grid_thw.h * config.patch_size
            assert padded_width_px % window_px == 0
            assert padded_height_px % window_px == 0
            assert 0 <= padded_width_px - resized.width_px == plan.padding.right_px < window_px
            assert 0 <= padded_height_px - resized.height_px == plan.padding.bottom_px < window_px
            assert plan.token_count * config.merge_kernel_size**2 == plan.row_count == plan.grid_thw.patch_count


def test_widths_are_truncated_after_the_double_product() -> None:
    # A tidier formula gives 7168 for all of them.
    truncated = [
        width_px
        for width_px in range(7_169, 60_000)
        if plan_image(K25, Size(width_px, 7)).resized_size.width_px == 7_167
    ]

    assert len(truncated) == 5_306
    assert truncated[0] == 8_366
    assert 50_000 in truncated


@given(
    patch_size=st.integers(1, 64),
    merge_kernel_size=st.integers(1, 4),
    in_patch_limit=st.integers(1, 5_000),
    windows_on_one_side=st.integers(1, 100),
    width_px=st.integers(1, 20_000),
    height_px=st.integers(1, 20_000),
)
def test_a_plan_keeps_its_limits(
    patch_size: int,
    merge_kernel_size: int,
    in_patch_limit: int,
    windows_on_one_side: int,
    width_px: int,
    height_px: int,
) -> None:
    config = dataclasses.replace(
        K25,
        patch_size=patch_size,
        merge_kernel_size=merge_kernel_size,
        in_patch_limit=in_patch_limit,
        patch_limit_on_one_side=windows_on_one_side * merge_kernel_size,
    )

    plan = plan_image(config, Size(width_px, height_px))

    assert (plan.resized_size.width_px, plan.resized_size.height_px) == expected_resized(config, width_px, height_px)
    assert max(plan.grid_thw.h, plan.grid_thw.w) <= config.patch_limit_on_one_side
    assert plan.shape == (plan.grid_thw.patch_count, 3, patch_size, patch_size)
    for element_type, itemsize in zip(ElementType, (1, 4, 2, 2), strict=True):
        assert plan.feature_bytes(element_type) == math.prod(plan.shape) * itemsize


@pytest.mark.parametrize("size", [Size(0, 5), Size(5, 0), Size(-1, 5)], ids=str)
def test_a_side_of_no_pixels_is_refused(size: Size) -> None:
    with pytest.raises(ItemFault) as caught:
        plan_image(K25, size)

    assert caught.value.reason is ItemReason.IMAGE_SIZE_INVALID
    assert str(size) in caught.value.message


def test_padding_over_an_odd_side_limit_is_refused() -> None:
    config = dataclasses.replace(K25, patch_limit_on_one_side=3)

    with pytest.raises(ItemFault) as caught:
        plan_image(config, Size(42, 10))

    assert caught.value.reason is ItemReason.IMAGE_SIZE_INVALID
    assert caught.value.message == "Expected at most 3 patches on one side, got 4 after padding"


def test_fixed_output_tokens_change_nothing_where_the_grid_agrees() -> None:
    config = dataclasses.replace(K25, fixed_output_tokens=64)

    assert plan_image(config, Size(224, 224)) == plan_image(K25, Size(224, 224))


def test_fixed_output_tokens_that_contradict_the_grid_are_refused_with_both_numbers() -> None:
    config = dataclasses.replace(K25, fixed_output_tokens=65)

    with pytest.raises(ItemFault) as caught:
        plan_image(config, Size(224, 224))

    assert caught.value.reason is ItemReason.TOKEN_COUNT_CONTRADICTION
    assert "65" in caught.value.message
    assert "64" in caught.value.message


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (Size(300, 200), Size(150, 100), (False, False, False)),
        (Size(150, 400), Size(71, 191), (False, False, True)),
        (Size(10, 20_000), Size(3, 7_168), (False, True, True)),
        (Size(2, 200), Size(1, 199), (False, False, False)),
        (Size(2, 201), Size(1, 200), (False, True, False)),
        (Size(100, 300), Size(50, 200), (False, False, False)),
        (Size(100, 301), Size(50, 200), (False, False, True)),
        (Size(300, 200), Size(308, 196), (False, False, True)),
        (Size(300, 200), Size(308, 200), (False, False, False)),
        (Size(300, 200), Size(400, 210), (False, False, False)),
    ],
    ids=str,
)
def test_the_pass_order_follows_each_release(source: Size, target: Size, expected: tuple[bool, bool, bool]) -> None:
    assert tuple(vertical_first(kernel, source, target) for kernel in PILLOW_KERNELS) == expected
    assert not vertical_first(ResampleKernel.ATEN_U8, source, target)
