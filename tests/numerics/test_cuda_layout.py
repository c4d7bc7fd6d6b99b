"""Windows, strips and layouts of the CUDA transform: plain arithmetic that decides what the device may touch."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import PILLOW_KERNELS, Crop, ResampleKernel, RowLayout, Size, Sweep
from monopath_server.transforms.coefficients import resample_weights
from monopath_server.transforms.cuda.layout import Column, lay_out, tile_shape
from monopath_server.transforms.cuda.strips import (
    DeviceImage,
    Strip,
    cut_into_strips,
    device_image,
    group_into_launches,
)
from monopath_server.transforms.cuda.windows import UNROLL, AxisKey, axis_windows

SMALL_LIMITS = dataclasses.replace(PRESETS["kimi-k3"], in_patch_limit=64, patch_limit_on_one_side=32)
SIZES = st.builds(Size, st.integers(1, 700), st.integers(1, 700))


def image_of(size: Size, config: KimiConfig = SMALL_LIMITS, index: int = 0) -> DeviceImage:
    plan = plan_image(config, size)
    return device_image(index, plan.sweeps[0], size, config.arithmetic, has_alpha=bool(index % 2), element_bytes=2)


def coefficient_places(strips: tuple[Strip, ...]) -> dict[AxisKey, int]:
    places: dict[AxisKey, int] = {}
    end = 0
    for strip in strips:
        for resize_pass in strip.image.passes:
            windows = resize_pass.windows
            if windows.key not in places:
                places[windows.key] = end
                end += windows.coefficients.size
    return places


@given(st.integers(1, 900), st.integers(1, 900))
def test_moved_windows_weigh_every_pixel_as_before(source_count: int, target_count: int) -> None:
    windows = axis_windows(source_count, target_count)
    original = resample_weights(source_count, target_count)
    assert windows.tap_count % UNROLL == 0
    assert np.all(np.diff(windows.starts) >= 0)
    assert windows.starts[-1] + windows.tap_count <= max(source_count, windows.tap_count)
    weights = windows.coefficients[target_count:].reshape(windows.tap_count, target_count)
    for target in {0, target_count // 2, target_count - 1}:
        spread = np.zeros(source_count + windows.tap_count, np.int32)
        spread[windows.starts[target] : windows.starts[target] + windows.tap_count] = weights[:, target]
        first, count = original.first[target], original.count[target]
        assert np.array_equal(spread[first : first + count], original.weights[target, :count])
        assert np.count_nonzero(spread) == np.count_nonzero(original.weights[target])


@given(SIZES, st.integers(1, 300_000), st.sampled_from(PILLOW_KERNELS))
def test_strips_cover_the_grid_once_and_keep_the_bound(size: Size, bound: int, kernel: ResampleKernel) -> None:
    image = image_of(size, dataclasses.replace(SMALL_LIMITS, resample_kernel=kernel))
    strips = list(cut_into_strips(image, bound))
    edges = [0] + [strip.patch_rows[1] for strip in strips]
    assert [strip.patch_rows for strip in strips] == list(itertools.pairwise(edges))
    assert edges[-1] == image.sweep.grid_rows
    assert all(strip.device_bytes <= bound or strip.patch_rows[1] - strip.patch_rows[0] == 1 for strip in strips)
    assert sum(strip.output_bytes for strip in strips) == image.sweep.row_count * image.layout.row_elements * 2
    for strip in strips:
        begin, end = strip.source_rows
        assert 0 <= begin <= end <= size.height_px
        assert len(image.passes) == 0 or strip.scratch_rows[0] <= strip.scratch_rows[1]


def test_an_image_that_fits_is_not_cut() -> None:
    image = image_of(Size(600, 500))
    whole = next(cut_into_strips(image, 1 << 40))
    assert list(cut_into_strips(image, whole.device_bytes)) == [whole]
    assert len(list(cut_into_strips(image, whole.device_bytes - 1))) == 2


@given(st.lists(SIZES, min_size=1, max_size=8), st.integers(100_000, 4_000_000))
def test_groups_keep_the_order_and_the_bound(sizes: list[Size], bound: int) -> None:
    images = [image_of(size, index=index) for index, size in enumerate(sizes)]
    groups = list(group_into_launches(images, bound))
    assert [strip.image.index for group in groups for strip in group] == sorted(
        strip.image.index for group in groups for strip in group
    )
    assert all(len(group) == 1 or sum(strip.device_bytes for strip in group) <= bound for group in groups)
    assert {strip.image.index for group in groups for strip in group} == set(range(len(images)))


@given(st.lists(SIZES, min_size=1, max_size=6))
def test_sections_of_a_launch_do_not_overlap(sizes: list[Size]) -> None:
    [strips] = group_into_launches([image_of(size, index=index) for index, size in enumerate(sizes)], 1 << 40)
    places = coefficient_places(strips)
    new_windows = tuple(axis_windows(*key) for key in places)
    tiles = tile_shape(RowLayout(14, 14))
    layout = lay_out(strips, tiles, places, new_windows)
    sections = [
        (0, layout.descriptors.nbytes),
        (layout.filter_tiles_offset, layout.filter_tiles.nbytes),
        (layout.write_tiles_offset, layout.write_tiles.nbytes),
        (layout.coefficients_offset, sum(windows.coefficients.nbytes for windows in new_windows)),
        *((offset, strip.source_bytes) for offset, strip in zip(layout.source_offsets, strips, strict=True)),
        *(
            (4 * int(row[Column.SCRATCH]), strip.scratch_bytes)
            for row, strip in zip(layout.descriptors, strips, strict=True)
        ),
    ]
    used = sorted(section for section in sections if section[1])
    for (begin, size), (after, _) in itertools.pairwise(used):
        assert begin + size <= after
    assert used[-1][0] + used[-1][1] <= layout.buffer_bytes
    assert layout.upload_bytes <= layout.buffer_bytes
    assert layout.filter_tiles_offset % 16 == layout.write_tiles_offset % 16 == 0
    for tile_list, count in ((layout.filter_tiles, tiles.filter_columns), (layout.write_tiles, tiles.patches)):
        assert len(np.unique(tile_list, axis=0)) == len(tile_list)
        widths = np.array(
            [
                s.image.scratch_width_px if tile_list is layout.filter_tiles else s.image.sweep.grid_columns
                for s in strips
            ]
        )
        assert np.all((tile_list[:, 1] & 0xFFFF) * count < widths[tile_list[:, 0]])


def test_axes_in_common_share_their_coefficients() -> None:
    strips = tuple(next(cut_into_strips(image_of(Size(500, 400), index=index), 1 << 40)) for index in range(4))
    assert len(coefficient_places(strips)) == 2


def test_an_image_beyond_32_bit_offsets_is_refused_by_itself() -> None:
    sweep = Sweep(Size(14, 14), Crop(0, 0, Size(14, 14)), 1, 1)
    with pytest.raises(ItemFault, match="Expected fewer than 2147483648") as caught:
        device_image(0, sweep, Size(60_000, 60_000), SMALL_LIMITS.arithmetic, has_alpha=False, element_bytes=4)
    assert caught.value.reason is ItemReason.FEATURES_TOO_LARGE


@pytest.mark.parametrize("patch_size", range(1, 65))
def test_tiles_are_powers_of_two_and_hold_a_patch(patch_size: int) -> None:
    tiles = tile_shape(RowLayout(patch_size, patch_size))
    assert tiles.positions >= patch_size * patch_size > tiles.positions // 2
    for lanes in (tiles.positions, tiles.patches, tiles.filter_rows, tiles.filter_columns):
        assert lanes & (lanes - 1) == 0
