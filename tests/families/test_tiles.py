"""CLIP, SigLIP and InternVL: sizes, crops and tiles; the measured tables, the traps, and the reference besides."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.fixed_size.config import FixedSizeConfig
from monopath_server.processors.fixed_size.geometry import ExactResize, Resize, ShortestEdgeResize
from monopath_server.processors.intern_vl.config import InternVlConfig
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.types import Crop, ResampleKernel, Size, TileGrid
from monopath_server.reference import RELEASED_PRESETS, reference_config, reference_plan
from tests.families.golden import (
    CLIP,
    CLIP_PADDED,
    INTERN_VL,
    SHORTEST_EDGES,
    SIGLIP,
    TILE_CONFIGS,
    TILE_GRIDS,
    TILE_PIPELINES,
    in_reference_words,
)

NAMES = ("clip-vit-l-14", "clip-vit-l-14-336", "siglip-so400m-14-384", "internvl2.5", "internvl3-hf")


def test_the_measured_tables_are_whole() -> None:
    assert (len(SHORTEST_EDGES), len(TILE_GRIDS), len(TILE_PIPELINES)) == (15, 28, 18)


@pytest.mark.parametrize("edge_px", [224, 336])
def test_the_shorter_side_is_exact_and_the_crop_is_in_the_middle(edge_px: int) -> None:
    config = dataclasses.replace(CLIP, resize=ShortestEdgeResize(edge_px), crop_size=Size(edge_px, edge_px))
    for width_px, height_px, for_224, for_336 in SHORTEST_EDGES:
        plan = config.plan(Size(width_px, height_px))
        resized, crop = plan.resized_size, plan.crop
        assert [resized.width_px, resized.height_px, crop.left_px, crop.top_px] == (
            for_224 if edge_px == 224 else for_336
        )
        assert plan.shape == (1, 3, edge_px, edge_px)


@pytest.mark.parametrize("max_tiles", [12, 6])
def test_tiles_are_the_measured_ones(max_tiles: int) -> None:
    config = dataclasses.replace(INTERN_VL, max_tiles=max_tiles)
    for width_px, height_px, of_twelve, of_six in TILE_GRIDS:
        plan = config.plan(Size(width_px, height_px))
        columns, rows, count = of_twelve[:3] if max_tiles == 12 else of_six
        assert plan.tile_grid == TileGrid(columns, rows, count > 1, 448)
        assert plan.shape == (count, 3, 448, 448)
        assert plan.token_count == 256 * count
    assert TILE_GRIDS[10][2] == [4, 3, 13, 3328]


@pytest.mark.parametrize("entry", TILE_PIPELINES, ids=lambda entry: f"{entry['config']}-{entry['width_px']}")
def test_pipelines_have_the_measured_sizes(entry: dict[str, Any]) -> None:
    plan = TILE_CONFIGS[entry["config"]].plan(Size(entry["width_px"], entry["height_px"]))
    assert [plan.resized_size.width_px, plan.resized_size.height_px] == entry["resized"]
    assert list(plan.shape) == entry["shape"]


def test_a_square_takes_more_tiles_where_it_has_more_than_half_of_their_area() -> None:
    tiles = {side_px: INTERN_VL.plan(Size(side_px, side_px)).tile_grid for side_px in (633, 634, 950, 951)}
    assert [(grid.columns, grid.rows) for grid in tiles.values()] == [(1, 1), (2, 2), (2, 2), (3, 3)]
    assert not tiles[633].has_thumbnail
    assert tiles[634].has_thumbnail


def test_the_product_of_the_edge_comes_before_the_quotient() -> None:
    assert CLIP.plan(Size(49, 427)).resized_size == Size(224, 1952)
    assert int(224 * (427 / 49)) == 1951


def test_a_longest_edge_shrinks_the_shorter_one_and_is_not_rounded_before() -> None:
    config = dataclasses.replace(CLIP, resize=ShortestEdgeResize(224, 300))
    assert config.plan(Size(640, 480)).resized_size == Size(298, 224)
    # 300 * 100 / 333 = 90.09..., and 90.09... * 333 / 100 = 300, where 90 would give 299.
    assert config.plan(Size(333, 100)).resized_size == Size(300, 90)
    assert config.plan(Size(90, 299)).resized_size == Size(90, 299)
    with pytest.raises(ItemFault, match="Expected at least 1 pixel after the resize, got 300 x 0") as caught:
        config.plan(Size(1000, 1))
    assert caught.value.reason is ItemReason.IMAGE_SIZE_INVALID


def test_of_an_odd_number_of_zeros_pillow_has_one_more_before_and_torchvision_behind() -> None:
    pillow = dataclasses.replace(CLIP_PADDED, resample_kernel=ResampleKernel.PILLOW_13)
    assert CLIP_PADDED.plan(Size(30, 21)).crop == Crop(2, -2, Size(24, 25))
    assert pillow.plan(Size(30, 21)).crop == Crop(2, -3, Size(24, 25))


def test_token_counts_need_the_encoders_patches() -> None:
    assert [PRESETS[name].plan(Size(300, 200)).token_count for name in NAMES] == [257, 577, 729, 1792, 1792]
    unknown = (
        dataclasses.replace(CLIP, patch_size=None),
        dataclasses.replace(INTERN_VL, tokens_per_tile=None),
    )
    assert [config.plan(Size(300, 200)).token_count for config in unknown] == [0, 0]


@pytest.mark.parametrize("config", [CLIP, SIGLIP, INTERN_VL], ids=lambda config: config.family)
def test_an_image_of_no_pixel_is_refused(config: FixedSizeConfig | InternVlConfig) -> None:
    with pytest.raises(ItemFault, match="Expected sides of at least 1 pixel, got 0 x 5"):
        config.plan(Size(0, 5))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", [ResampleKernel.ATEN_U8, ResampleKernel.PILLOW_13])
def test_plans_of_300_sizes_equal_the_references(name: str, kernel: ResampleKernel) -> None:
    config = dataclasses.replace(PRESETS[name], resample_kernel=kernel)  # type: ignore[call-arg]
    reference = reference_config(RELEASED_PRESETS[name], kernel.name)
    generator = np.random.default_rng(7)
    sizes = [(int(10 ** generator.uniform(0, 4.8)), int(10 ** generator.uniform(0, 3))) for _ in range(290)]
    extreme = [(1, 1), (1, 65_535), (65_535, 1), (448, 448), (2, 1), (1, 2), (896, 447), (447, 896), (3, 5), (224, 224)]
    for width_px, height_px in [*sizes, *extreme]:
        plan = config.plan(Size(width_px, height_px))
        assert in_reference_words(plan) == reference_plan(reference, width_px, height_px)


edges = st.builds(ShortestEdgeResize, st.integers(1, 60), st.none() | st.integers(60, 90))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    edges | st.builds(ExactResize, st.integers(1, 60), st.integers(1, 60)),
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.integers(1, 500),
    st.integers(1, 500),
    st.sampled_from([ResampleKernel.ATEN_U8, ResampleKernel.PILLOW_11]),
)
def test_any_resize_and_crop_has_the_references_plan(
    resize: Resize, crop: tuple[int, int], width_px: int, height_px: int, kernel: ResampleKernel
) -> None:
    config = dataclasses.replace(CLIP, resize=resize, crop_size=Size(*crop), resample_kernel=kernel)
    size = {key: value for key, value in dataclasses.asdict(resize).items() if value is not None}
    checkpoint = {**RELEASED_PRESETS["clip-vit-l-14"], "size": size, "crop_size": {"width": crop[0], "height": crop[1]}}
    reference = reference_config(checkpoint, kernel.name)
    try:
        expected = reference_plan(reference, width_px, height_px)
    except ValueError:
        with pytest.raises(ItemFault):
            config.plan(Size(width_px, height_px))
        return
    assert in_reference_words(config.plan(Size(width_px, height_px))) == expected


def test_violations_name_the_fields_of_the_message() -> None:
    wrong = dataclasses.replace(
        CLIP, resize=ShortestEdgeResize(0, 5_000), crop_size=None, patch_size=65, class_token_count=-1
    )
    assert [violation.field for violation in wrong.violations()] == [
        "shortest_edge.length_px",
        "shortest_edge.longest_edge_px",
        "crop_size",
        "patch_size",
        "class_token_count",
    ]
    exact = dataclasses.replace(CLIP, resize=ExactResize(0, 2_049), crop_size=Size(0, 2_049))
    assert [violation.field for violation in exact.violations()] == [
        "exact_size.height_px",
        "exact_size.width_px",
        "crop_size.height_px",
        "crop_size.width_px",
    ]
    tiles = dataclasses.replace(INTERN_VL, tile_size=1_025, min_tiles=3, max_tiles=2, tokens_per_tile=0)
    assert [violation.field for violation in tiles.violations()] == ["tile_size", "max_tiles", "tokens_per_tile"]
