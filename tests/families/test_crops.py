"""Crops and tiles in the transforms: the bytes of a cut from the whole resize, at the cost of what is kept alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from monopath_server.processors.backends import HALF
from monopath_server.processors.fixed_size.config import FixedSizeConfig
from monopath_server.processors.fixed_size.geometry import ExactResize, ShortestEdgeResize
from monopath_server.processors.intern_vl.config import InternVlConfig
from monopath_server.processors.types import (
    AlphaPolicy,
    ElementType,
    ResampleFilter,
    ResampleKernel,
    RowLayout,
    Size,
)
from monopath_server.reference import RawImage, reference_config, reference_features
from monopath_server.transforms.coefficients import WeightRule, resample_weights
from monopath_server.transforms.cpu import transform as cpu_transform
from monopath_server.transforms.cpu.arguments import SourcePixels, Target
from monopath_server.transforms.cuda.device import InterpreterDevice
from monopath_server.transforms.cuda.layout import tile_shape
from monopath_server.transforms.cuda.strips import device_image
from monopath_server.transforms.cuda.transform import CudaTransform
from tests.families.golden import CLIP, INTERN_VL_SMALL, SIGLIP_BILINEAR, Golden, cpu_rows, generated_image, prepared
from tests.numerics.strategies import image_of_mode

RULES = st.builds(WeightRule.of, st.sampled_from(ResampleKernel), st.sampled_from(ResampleFilter))


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), RULES, st.data())
def test_weights_of_a_stretch_are_those_of_the_whole_axis(
    source_count: int, target_count: int, rule: WeightRule, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(-5, target_count - 1))
    end = data.draw(st.integers(max(begin, 0) + 1, target_count + 5))
    whole = resample_weights(source_count, target_count, rule)
    part = resample_weights(source_count, target_count, rule, (begin, end))
    assert part.target_count == end - begin
    assert np.all(np.diff(part.first) >= 0)
    assert np.all(part.first + part.count <= part.source_count)
    for index, target in enumerate(range(begin, end)):
        taps = part.weights[index, : part.count[index]]
        if not 0 <= target < target_count:
            assert part.count[index] == 0
            continue
        assert part.source_begin + part.first[index] == whole.first[target]
        assert np.array_equal(taps, whole.weights[target, : whole.count[target]])


def test_a_stretch_of_a_very_long_axis_is_weighed_as_the_whole() -> None:
    rule = WeightRule.of(ResampleKernel.ATEN_U8, ResampleFilter.BICUBIC)
    part = resample_weights(1_000, 224_000, rule, (111_888, 112_112))
    whole = resample_weights(1_000, 224_000, rule)
    assert np.array_equal(part.weights, whole.weights[111_888:112_112])
    assert part.weights.shape == (224, 4)


@pytest.mark.parametrize("size", [Size(1000, 10), Size(10, 1000), Size(65_535, 1), Size(1, 65_535)], ids=str)
@pytest.mark.parametrize("kernel", [ResampleKernel.ATEN_U8, ResampleKernel.PILLOW_13])
def test_what_a_crop_leaves_out_is_neither_read_nor_made(
    size: Size, kernel: ResampleKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(CLIP, resample_kernel=kernel)
    calls: list[tuple[SourcePixels, Target]] = []
    monkeypatch.setattr(cpu_transform, "run_kernel", lambda source, target, *_: calls.append((source, target)))
    cpu_rows(Image.new("RGB", (size.width_px, size.height_px)), config, ElementType.FLOAT16)
    source, target = calls[-1]
    assert (target.resized_width_px, target.resized_height_px) == (224, 224)
    longest_px = max(config.plan(size).resized_size.width_px, config.plan(size).resized_size.height_px)
    assert longest_px >= 22_400
    assert max(source.width_px, source.height_px) <= 16
    [sweep] = config.plan(size).sweeps
    on_device = device_image(0, sweep, size, config.arithmetic, has_alpha=False, element_bytes=2)
    assert on_device.source_size.width_px * on_device.source_size.height_px <= 160
    assert sum(resize_pass.windows.coefficients.nbytes for resize_pass in on_device.passes) <= 20_000


@st.composite
def fixed_sizes(draw: st.DrawFn) -> FixedSizeConfig:
    sides = st.integers(1, 40)
    resize = draw(st.builds(ShortestEdgeResize, sides) | st.builds(ExactResize, sides, sides))
    return FixedSizeConfig(
        resize=resize,
        crop_size=draw(st.builds(Size, sides, sides)),
        image_mean=CLIP.image_mean,
        image_std=CLIP.image_std,
        resample_filter=draw(st.sampled_from(ResampleFilter)),
        resample_kernel=draw(st.sampled_from(ResampleKernel)),
        alpha=draw(st.sampled_from(AlphaPolicy)),
    )


@st.composite
def tiled(draw: st.DrawFn) -> InternVlConfig:
    fewest = draw(st.integers(1, 4))
    return InternVlConfig(
        tile_size=draw(st.integers(1, 30)),
        min_tiles=fewest,
        max_tiles=draw(st.integers(fewest, 9)),
        has_thumbnail=True,
        tokens_per_tile=1,
        image_mean=HALF,
        image_std=HALF,
        resample_kernel=draw(st.sampled_from(ResampleKernel)),
        alpha=draw(st.sampled_from(AlphaPolicy)),
    )


def reference_bytes(image: Image.Image, config: FixedSizeConfig | InternVlConfig, element_type: ElementType) -> bytes:
    checkpoint: dict[str, Any] = {"image_mean": list(config.image_mean), "image_std": list(config.image_std)}
    match config:
        case InternVlConfig():
            side = {"height": config.tile_size, "width": config.tile_size}
            checkpoint |= {
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": side,
                "crop_to_patches": True,
                "min_patches": config.min_tiles,
                "max_patches": config.max_tiles,
            }
        case FixedSizeConfig():
            size = dataclasses.asdict(config.resize)
            crop = config.crop_size
            assert crop is not None
            checkpoint |= {
                "image_processor_type": "CLIPImageProcessor",
                "size": {key: value for key, value in size.items() if value is not None},
                "crop_size": {"height": crop.height_px, "width": crop.width_px},
                "resample": 2 if config.resample_filter is ResampleFilter.BILINEAR else 3,
            }
    reference = reference_config(checkpoint, config.resample_kernel.name, alpha=config.alpha.name)
    source = RawImage(image.width, image.height, "RGBA8" if image.mode == "RGBA" else "RGB8", image.tobytes())
    return reference_features(source, reference, element_type.name).pixel_values.tobytes()


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(
    fixed_sizes() | tiled(),
    st.sampled_from(ElementType),
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from(["RGB", "RGBA"]),
    st.integers(0, 1000),
)
def test_random_crops_and_tiles_equal_the_reference(
    config: FixedSizeConfig | InternVlConfig,
    element_type: ElementType,
    width_px: int,
    height_px: int,
    mode: str,
    seed: int,
) -> None:
    image = image_of_mode(mode, width_px, height_px, seed)
    assert cpu_rows(image, config, element_type).tobytes() == reference_bytes(image, config, element_type)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    fixed_sizes() | tiled(),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=3),
    st.sampled_from([1_000, 20_000, 1 << 30]),
)
def test_random_crops_and_tiles_are_the_same_on_both_transforms_also_in_strips(
    config: FixedSizeConfig | InternVlConfig, sizes: list[tuple[int, int]], max_scratch_bytes: int
) -> None:
    items: list[Any] = []
    expected = []
    for width_px, height_px in sizes:
        pixels, plan = prepared(Golden("", config, Size(width_px, height_px), 3, {}))
        items.append((pixels, plan, np.empty(plan.feature_bytes(ElementType.FLOAT16), np.uint8)))
        expected.append(cpu_rows(generated_image(Size(width_px, height_px), 3), config, ElementType.FLOAT16))
    transform = CudaTransform(config, ElementType.FLOAT16, InterpreterDevice(), max_scratch_bytes=max_scratch_bytes)
    assert transform.run_batch(items) == (None,) * len(items)
    assert all(np.array_equal(rows, cpu) for (_, _, rows), cpu in zip(items, expected, strict=True))


@pytest.mark.parametrize(
    "config",
    [SIGLIP_BILINEAR, INTERN_VL_SMALL, dataclasses.replace(INTERN_VL_SMALL, tile_size=70, max_tiles=2)],
    ids=["no square", "small tiles", "tiles of several parts"],
)
def test_the_tiles_of_a_real_device_give_the_same_bytes(config: FixedSizeConfig | InternVlConfig) -> None:
    size = Size(50, 30)
    pixels, plan = prepared(Golden("", config, size, 3, {}))
    rows = np.empty(plan.feature_bytes(ElementType.UINT8), np.uint8)
    shape = tile_shape(config.arithmetic.layout)
    transform = CudaTransform(config, ElementType.UINT8, InterpreterDevice(), tiles=shape)
    assert transform.run_batch([(pixels, plan, rows)]) == (None,)
    assert np.array_equal(rows, cpu_rows(generated_image(size, 3), config, ElementType.UINT8))
    transform.warm_up()


@pytest.mark.parametrize("side_px", [65, 224, 448, 1_024, 2_048])
def test_a_large_patch_is_shared_by_programs(side_px: int) -> None:
    shape = tile_shape(RowLayout(side_px, side_px))
    assert shape.positions == 1024
    assert (shape.parts - 1) * shape.positions < side_px * side_px <= shape.parts * shape.positions
    assert shape.patches == 1
    # A column of tiles and its part have 16 bits together.
    assert shape.parts * (40 if side_px <= 1_024 else 1) < 1 << 16
