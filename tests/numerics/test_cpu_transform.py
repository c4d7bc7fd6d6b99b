"""The CPU transform, byte for byte against Pillow and numpy."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from monopath_server.media.prepare import PreparedPixels, ResizeRoute, prepare_image
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import PILLOW_KERNELS, ElementType, ImagePlan, ResampleKernel, Size
from monopath_server.transforms.cpu.transform import CpuTransform
from tests.numerics.oracle import expected_rows
from tests.numerics.strategies import configs, image_of_mode

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent.parent / "data" / "reference_golden.json").read_text())
K25 = PRESETS["kimi-k2.5"]
K3 = PRESETS["kimi-k3"]
FLOAT32 = ElementType.FLOAT32


def published_pixels(width_px: int, height_px: int, channels: int) -> NDArray[np.uint8]:
    y, x, c = np.mgrid[0:height_px, 0:width_px, 0:channels]
    values = (3 * x * x + 5 * y * y + 7 * x * y + 11 * x + 13 * y + 97 * c + (x * y * (c + 1)) // 16) % 256
    pixels: NDArray[np.uint8] = values.astype(np.uint8)
    return pixels


def rows_of(image: Image.Image, config: KimiConfig, element_type: ElementType) -> tuple[ImagePlan, NDArray[np.uint8]]:
    plan = plan_image(config, Size(*image.size))
    rows = np.full(plan.feature_bytes(element_type), 77, np.uint8)
    CpuTransform(config, element_type).rows_into(prepare_image(image, plan, config), plan, rows)
    return plan, rows


def assert_equal_rows(actual: NDArray[np.uint8], expected: NDArray[np.uint8]) -> None:
    assert actual.shape == expected.shape
    differing = np.flatnonzero(actual != expected)
    assert differing.size == 0, f"{differing.size} of {actual.size} bytes differ, the first at {differing[0]}"


@pytest.mark.parametrize("kernel", PILLOW_KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(
    "golden", GOLDEN, ids=lambda g: f"{g['model']}-{g['mode']}-{g['width_px']}x{g['height_px']}-{g['in_patch_limit']}"
)
def test_generated_images_have_the_published_bytes(golden: dict[str, Any], kernel: ResampleKernel) -> None:
    config = dataclasses.replace(
        K3 if golden["model"] == "K3" else K25,
        in_patch_limit=golden["in_patch_limit"],
        patch_limit_on_one_side=golden["patch_limit_on_one_side"],
        resample_kernel=kernel,
    )
    pixels = published_pixels(golden["width_px"], golden["height_px"], len(golden["mode"]))
    assert hashlib.sha256(pixels.tobytes()).hexdigest().startswith(golden["source_sha256_prefix"])

    for element_type in (ElementType.FLOAT32, ElementType.BFLOAT16):
        plan, rows = rows_of(Image.fromarray(pixels), config, element_type)
        assert hashlib.sha256(rows.tobytes()).hexdigest() == golden["sha256"][kernel.name][element_type.name]
        assert plan.row_count == golden["row_count"]


@settings(deadline=None, max_examples=120)
@given(
    config=configs(),
    mode=st.sampled_from(("RGB", "RGBA", "L", "LA")),
    width_px=st.integers(1, 300),
    height_px=st.integers(1, 300),
    element_type=st.sampled_from(ElementType),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_image_has_the_bytes_of_pillow_and_numpy(
    config: KimiConfig, mode: str, width_px: int, height_px: int, element_type: ElementType, seed: int
) -> None:
    image = image_of_mode(mode, width_px, height_px, seed)

    plan, rows = rows_of(image, config, element_type)

    assert_equal_rows(rows, expected_rows(image, plan, config, element_type))


@pytest.mark.parametrize("element_type", ElementType)
@pytest.mark.parametrize("kernel", PILLOW_KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(
    ("width_px", "height_px"), [(1, 300), (300, 1), (2, 500), (500, 2), (7, 7), (31, 257), (150, 400), (400, 150)]
)
def test_thin_and_tall_images_in_every_order(
    width_px: int, height_px: int, kernel: ResampleKernel, element_type: ElementType
) -> None:
    config = dataclasses.replace(K3, in_patch_limit=16, patch_limit_on_one_side=8, resample_kernel=kernel)
    for mode in ("RGB", "RGBA"):
        image = image_of_mode(mode, width_px, height_px, seed=width_px)

        plan, rows = rows_of(image, config, element_type)

        assert_equal_rows(rows, expected_rows(image, plan, config, element_type))


@pytest.mark.parametrize("patch_size", range(1, 65))
def test_every_patch_size_is_served(patch_size: int) -> None:
    config = dataclasses.replace(K3, patch_size=patch_size, in_patch_limit=36, patch_limit_on_one_side=10)
    image = image_of_mode("RGBA", 90, 61, seed=patch_size)
    for element_type in ElementType:
        plan, rows = rows_of(image, config, element_type)

        assert_equal_rows(rows, expected_rows(image, plan, config, element_type))


@pytest.mark.parametrize("element_type", ElementType)
def test_an_image_whose_rows_are_streamed_past_the_caches(element_type: ElementType) -> None:
    image = image_of_mode("RGB", 1501, 1699, seed=1)
    plan = plan_image(K25, Size(*image.size))
    prepared = prepare_image(image, plan, K25)
    expected = expected_rows(image, plan, K25, element_type)
    assert expected.nbytes > 4 * 1024 * 1024
    buffer = np.zeros(expected.nbytes + 64, np.uint8)
    transform = CpuTransform(K25, element_type)
    # An address that is no multiple of 16 cannot be streamed to; both kinds must have the same bytes.
    for misalignment in (0, 1):
        start = -buffer.ctypes.data % 16 + misalignment
        rows = buffer[start : start + expected.nbytes]
        transform.rows_into(prepared, plan, rows)
        assert_equal_rows(rows, expected)
        assert not buffer[:start].any()
        assert not buffer[start + expected.nbytes :].any()
        buffer[:] = 0


def test_an_opaque_alpha_gives_the_bytes_of_rgb() -> None:
    config = dataclasses.replace(K3, in_patch_limit=64)
    rgb = image_of_mode("RGB", 200, 300, seed=5)
    rgba = rgb.copy()
    rgba.putalpha(255)

    assert_equal_rows(rows_of(rgba, config, FLOAT32)[1], rows_of(rgb, config, FLOAT32)[1])


def test_pixels_may_be_a_strided_part_of_a_larger_image() -> None:
    config = dataclasses.replace(K25, in_patch_limit=64)
    large = np.random.default_rng(0).integers(0, 256, (400, 500, 4), dtype=np.uint8)
    part = large[50:350, 100:300]
    plan = plan_image(config, Size(200, 300))
    prepared = PreparedPixels(part, has_alpha=False, already_resized=False, source_mode="RGB", route=ResizeRoute.KERNEL)
    rows = np.empty(plan.feature_bytes(FLOAT32), np.uint8)

    CpuTransform(config, FLOAT32).rows_into(prepared, plan, rows)

    image = Image.fromarray(np.ascontiguousarray(part[..., :3]))
    assert_equal_rows(rows, expected_rows(image, plan, config, FLOAT32))


def test_one_transform_serves_many_threads_at_once() -> None:
    config = dataclasses.replace(K3, in_patch_limit=64)
    transform = CpuTransform(config, FLOAT32)
    images = [image_of_mode("RGBA", 90 + 13 * index, 120 + 7 * index, seed=index) for index in range(8)]
    plans = [plan_image(config, Size(*image.size)) for image in images]
    prepared = [prepare_image(image, plan, config) for image, plan in zip(images, plans, strict=True)]
    expected = [expected_rows(image, plan, config, FLOAT32) for image, plan in zip(images, plans, strict=True)]
    wrong: list[int] = []
    start = threading.Barrier(4)

    def work(first: int) -> None:
        start.wait(timeout=30)
        for turn in range(40):
            index = (first + turn) % len(images)
            rows = np.empty_like(expected[index])
            transform.rows_into(prepared[index], plans[index], rows)
            if not np.array_equal(rows, expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(2 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_what_does_not_fit_the_plan_is_refused() -> None:
    transform = CpuTransform(K25, FLOAT32)
    image = image_of_mode("RGB", 40, 30, seed=0)
    plan = plan_image(K25, Size(40, 30))
    prepared = prepare_image(image, plan, K25)
    rows = np.zeros(plan.feature_bytes(FLOAT32), np.uint8)
    read_only = rows.copy()
    read_only.setflags(write=False)

    for buffer in (rows[:-1], rows.view(np.float32), rows.reshape(2, -1), np.zeros(2 * rows.size, np.uint8)[::2]):
        with pytest.raises(ValueError, match="Expected a flat buffer"):
            transform.rows_into(prepared, plan, buffer)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected a writable buffer"):
        transform.rows_into(prepared, plan, read_only)
    with pytest.raises(ValueError, match="Expected 30 x 40 pixels, got 40 x 30"):
        transform.rows_into(prepared, plan_image(K25, Size(30, 40)), rows)
    with pytest.raises(ValueError, match="Expected uint8 pixels of 4 bytes"):
        transform.rows_into(dataclasses.replace(prepared, pixels=prepared.pixels[..., :3]), plan, rows)
    other = dataclasses.replace(K25, patch_size=16)
    with pytest.raises(ValueError, match=r"Expected a plan of rows of 14 x 14 pixels, .* got 16 x 16"):
        transform.rows_into(prepared, plan_image(other, Size(40, 30)), rows)
    assert not rows.any()


def test_the_closed_forms_are_taken_for_their_constants_only() -> None:
    # They are an optimisation that must never decide a byte: other constants must not get near them.
    clip = dataclasses.replace(K25, image_mean=(0.48145466, 0.4578275, 0.40821073), image_std=(0.27, 0.26, 0.28))
    image = image_of_mode("RGB", 256, 56, seed=3)
    for config in (K25, clip, dataclasses.replace(K25, image_mean=(0.5, 0.5, 0.25))):
        for element_type in ElementType:
            plan, rows = rows_of(image, config, element_type)
            assert_equal_rows(rows, expected_rows(image, plan, config, element_type))


def run_module(name: str) -> str:
    """Run a module of the tests in a process of its own, and return what it prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    result = subprocess.run(
        [sys.executable, "-m", name],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_no_byte_outside_the_image_and_the_rows_is_touched() -> None:
    # In another process: a wrong access ends it.
    assert run_module("tests.numerics.guarded_pages") == "300 images"


def test_another_process_loads_the_kernel_instead_of_compiling_it() -> None:
    CpuTransform(K25, FLOAT32)

    assert run_module("tests.numerics.warm_process") == "1 loaded, 0 compiled"
