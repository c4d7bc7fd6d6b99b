"""Every family's bytes: the measured ones on both transforms, and the reference's for random configs and images."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.qwen_vl.config import QwenVlConfig
from monopath_server.processors.types import (
    AlphaPolicy,
    CompositeRounding,
    ElementType,
    Normalization,
    ResampleKernel,
    Size,
)
from monopath_server.reference import reference_config, reference_features
from monopath_server.transforms import tables
from monopath_server.transforms.cuda.device import InterpreterDevice
from monopath_server.transforms.cuda.layout import tile_shape
from monopath_server.transforms.cuda.transform import CudaTransform
from tests.families.branches import branches, enough_of
from tests.families.golden import (
    GLM5,
    KIMI_VL,
    QWEN2,
    QWEN3,
    TILE_CONFIGS,
    Golden,
    cpu_rows,
    generated_image,
    goldens,
    prepared,
    sha256,
)
from tests.numerics.strategies import ALL_MODES, image_of_mode

HALF = (0.5, 0.5, 0.5)
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
GOLDENS = list(goldens())
INTERPRETED = enough_of(GOLDENS)


@pytest.fixture(scope="session")
def device() -> InterpreterDevice:
    return InterpreterDevice()


def test_the_list_of_measured_bytes_is_whole() -> None:
    names = {golden.name.partition("-")[0] for golden in GOLDENS}
    grids = {"Q25", "Q25s", "Q3", "Q3s", "GLM", "GLMs", "GLM5", "GLM5s", "KVL", "KVLs", "KVLc", "KVLcrop"}
    assert names == grids | set(TILE_CONFIGS)
    assert sum(len(golden.digests) for golden in GOLDENS) == 288


@pytest.mark.parametrize("golden", GOLDENS, ids=str)
def test_the_cpu_makes_the_measured_bytes(golden: Golden) -> None:
    for element_type, digest in golden.digests.items():
        rows = cpu_rows(generated_image(golden.size, golden.channels), golden.config, element_type)
        assert sha256(rows).startswith(digest), element_type


def test_what_is_interpreted_reaches_whatever_any_image_reaches() -> None:
    reached = set().union(*map(branches, INTERPRETED))
    assert reached == set().union(*map(branches, GOLDENS))
    layouts = {golden.config.arithmetic.layout for golden in INTERPRETED}
    assert layouts == {golden.config.arithmetic.layout for golden in GOLDENS}
    # Up to now a quarter of all; should it be nearly all one day, `branches` tells too much apart.
    assert len(INTERPRETED) < len(GOLDENS) / 2


@pytest.mark.parametrize("golden", INTERPRETED, ids=str)
def test_the_interpreted_kernels_make_the_measured_bytes(device: InterpreterDevice, golden: Golden) -> None:
    pixels, plan = prepared(golden)
    # One of its element types each: the others differ in the last look-up alone, and the interpreter is slow.
    element_type, digest = min(golden.digests.items(), key=lambda entry: entry[0].itemsize)
    rows = np.empty(plan.feature_bytes(element_type), np.uint8)
    transform = CudaTransform(golden.config, element_type, device)
    assert transform.run_batch([(pixels, plan, rows)]) == (None,)
    assert sha256(rows).startswith(digest)


def test_several_images_in_one_batch_are_those_of_the_reference(device: InterpreterDevice) -> None:
    items: list[Any] = []
    for size in (Size(300, 200), Size(29, 27)):
        pixels, plan = prepared(Golden("", QWEN3, size, 3, {}))
        items.append((pixels, plan, np.empty(plan.feature_bytes(ElementType.FLOAT32), np.uint8)))
    assert CudaTransform(QWEN3, ElementType.FLOAT32, device).run_batch(items) == (None, None)
    together = np.concatenate([rows for _, _, rows in items])
    assert sha256(together) == "cf4aba7da719d7d2cdee1c8e8c2563fe88bd6ca67d97c9f393828fa08cb67f49"


@pytest.mark.parametrize(
    ("mean", "std", "normalization", "digest"),
    [
        (HALF, HALF, "PIL_BACKEND", "59e92db758d185f3e78b2d7a346580fc50ce7b0317d28f68f40ad10293501ab3"),
        (HALF, HALF, "TORCHVISION", "9a7040160ad32cf804a854b7a61935323c726030e181f28eb8da7e37df7e588d"),
        (CLIP_MEAN, CLIP_STD, "PIL_BACKEND", "5d23c0b115c373c73875b37dce36aa6a54af484dd4332d5f9d07d6ebecb20900"),
        (CLIP_MEAN, CLIP_STD, "TORCHVISION", "29a746f2a7d5a596db6b933e44fc1d716612a1fa76dbfdda971aa0e1898749c5"),
        (*IMAGENET, "PIL_BACKEND", "1d8b9af12b7b391827f7c801265239e21435c7e29b4d78c6189a35e437633897"),
        (*IMAGENET, "TORCHVISION", "0fb8c7f771e43b53440fc1f58ce6a744e9823ea71709f14853d3da29f2d0c195"),
    ],
)
def test_value_tables_are_the_measured_ones(mean: Any, std: Any, normalization: str, digest: str) -> None:
    assert sha256(tables.normalize_table(mean, std, Normalization[normalization])) == digest


@pytest.mark.parametrize(
    ("mean", "std", "prefix"),
    [
        (HALF, HALF, "ec81a3df94febf22"),
        (CLIP_MEAN, CLIP_STD, "d982b3118f42c08e"),
        (*IMAGENET, "19b7eb14dcab3589"),
    ],
)
def test_backends_agree_in_bfloat16(mean: Any, std: Any, prefix: str) -> None:
    for normalization in Normalization:
        table = tables.element_table(mean, std, ElementType.BFLOAT16, normalization)
        assert sha256(table).startswith(prefix), normalization


def test_the_composite_on_white_is_pillows_own() -> None:
    table = tables.composite_table(255, CompositeRounding.NEAREST)
    assert sha256(table) == "daffe4105f538143f578aac1659ef63cff348732e043f66f90c73519d83f8c1b"


@st.composite
def windowed_configs(draw: st.DrawFn) -> QwenVlConfig:
    """Configs of every layout of rows, whose bounds make images both larger and smaller."""
    patch_size = draw(st.sampled_from([14, 16, 8]) | st.integers(1, 20))
    merge_size = draw(st.sampled_from([2, 2, 1, 3]))
    token_px = (patch_size * merge_size) ** 2
    smallest = draw(st.integers(1, 12)) * token_px
    return QwenVlConfig(
        patch_size=patch_size,
        merge_size=merge_size,
        temporal_patch_size=draw(st.sampled_from([2, 2, 1, 3])),
        min_pixels=smallest,
        max_pixels=smallest + draw(st.integers(0, 20)) * token_px,
        image_mean=draw(st.sampled_from([HALF, CLIP_MEAN])),
        image_std=draw(st.sampled_from([HALF, CLIP_STD])),
        resample_kernel=draw(st.sampled_from(ResampleKernel)),
        alpha=draw(st.sampled_from(AlphaPolicy)),
    )


def reference_rows(image: Image.Image, config: QwenVlConfig, element_type: ElementType) -> NDArray[np.uint8]:
    checkpoint = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": config.patch_size,
        "merge_size": config.merge_size,
        "temporal_patch_size": config.temporal_patch_size,
        "min_pixels": config.min_pixels,
        "max_pixels": config.max_pixels,
        "image_mean": list(config.image_mean),
        "image_std": list(config.image_std),
    }
    reference = reference_config(checkpoint, config.resample_kernel.name, alpha=config.alpha.name)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **({"transparency": image.info["transparency"]} if "transparency" in image.info else {}))
    made = reference_features(buffer.getvalue(), reference, element_type.name)
    return made.pixel_values.reshape(-1).view(np.uint8)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    windowed_configs(),
    st.sampled_from(ElementType),
    st.integers(1, 120),
    st.integers(1, 120),
    st.sampled_from(["RGB", "RGBA", "L", "LA", "P", "1", "RGB+key", "L+key", "P+key"]),
    st.integers(0, 1000),
)
def test_random_images_of_random_layouts_equal_the_reference(
    config: QwenVlConfig, element_type: ElementType, width_px: int, height_px: int, mode: str, seed: int
) -> None:
    image = image_of_mode(mode, width_px, height_px, seed)
    assert np.array_equal(cpu_rows(image, config, element_type), reference_rows(image, config, element_type))


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    windowed_configs(),
    st.sampled_from(ElementType),
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 90)), min_size=1, max_size=3),
    st.sampled_from([2_000, 40_000, 1 << 30]),
)
def test_random_layouts_are_the_same_on_both_transforms_also_in_strips(
    device: InterpreterDevice,
    config: QwenVlConfig,
    element_type: ElementType,
    sizes: list[tuple[int, int]],
    max_scratch_bytes: int,
) -> None:
    items: list[Any] = []
    expected = []
    for seed, (width_px, height_px) in enumerate(sizes):
        pixels, plan = prepared(Golden("", config, Size(width_px, height_px), 3, {}))
        items.append((pixels, plan, np.empty(plan.feature_bytes(element_type), np.uint8)))
        expected.append(cpu_rows(generated_image(Size(width_px, height_px), 3), config, element_type))
        assert seed < 3
    transform = CudaTransform(config, element_type, device, max_scratch_bytes=max_scratch_bytes)
    assert transform.run_batch(items) == (None,) * len(items)
    assert all(np.array_equal(rows, cpu) for (_, _, rows), cpu in zip(items, expected, strict=True))


@pytest.mark.parametrize("config", [QWEN2, QWEN3, GLM5, KIMI_VL], ids=lambda config: config.family)
def test_the_tiles_of_a_real_device_give_the_same_bytes(device: InterpreterDevice, config: ProcessorConfig) -> None:
    pixels, plan = prepared(Golden("", config, Size(30, 41), 3, {}))
    rows = np.empty(plan.feature_bytes(ElementType.FLOAT16), np.uint8)
    tiles = tile_shape(config.arithmetic.layout)
    transform = CudaTransform(config, ElementType.FLOAT16, device, tiles=tiles)
    assert transform.run_batch([(pixels, plan, rows)]) == (None,)
    assert np.array_equal(rows, cpu_rows(generated_image(Size(30, 41), 3), config, ElementType.FLOAT16))
    transform.warm_up()


# Pillow cannot turn LAB into RGB, and blends the indices of PA, of which nothing can be told.
@pytest.mark.parametrize("mode", [mode for mode in ALL_MODES if mode not in ("LAB", "PA")])
def test_kimi_vl_pads_each_mode_with_its_own_zero(mode: str) -> None:
    small = dataclasses.replace(KIMI_VL, in_token_limit=4)
    image = image_of_mode(mode, 61, 43, seed=3)
    plan = small.plan(Size(61, 43))
    rows = cpu_rows(image, small, ElementType.UINT8)
    last = rows.reshape(plan.row_count, 3, 14, 14)[-1, :, -1, -1]
    canvas = image.crop((0, 0, 62, 44))
    canvas.info.pop("transparency", None)
    expected = np.asarray(canvas.convert("RGB"))[-1, -1]
    assert plan.padding.right_px > 0 < plan.padding.bottom_px
    assert last.tolist() == expected.tolist()


def test_a_large_image_of_wide_windows_is_the_same_streamed_past_the_caches() -> None:
    config = dataclasses.replace(QWEN3, resample_kernel=ResampleKernel.PILLOW_13)
    image = generated_image(Size(1030, 770), 3)
    rows = cpu_rows(image, config, ElementType.FLOAT32)
    assert rows.nbytes > 4 * 1024 * 1024
    assert np.array_equal(rows, reference_rows(image, config, ElementType.FLOAT32))
