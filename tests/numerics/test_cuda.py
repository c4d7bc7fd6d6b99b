"""The CUDA transform under Triton's interpreter: the same bytes as the CPU path, in at most two launches."""

from __future__ import annotations

import dataclasses
import io
import weakref

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.pixels import PixelFormat
from monopath_server.media.prepare import prepare_image, prepare_raw_pixels
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType, ResampleKernel, Size
from monopath_server.reference import (
    RawImage,
    ReferenceBackground,
    ReferenceConfig,
    generated_images,
    reference_features,
)
from monopath_server.transforms.cuda import lane
from monopath_server.transforms.cuda.device import InterpreterDevice
from monopath_server.transforms.cuda.layout import tile_shape
from monopath_server.transforms.cuda.runtime import check_int32_overflow, load_kernels
from monopath_server.transforms.cuda.transform import BatchItem, CudaTransform
from tests.numerics.cuda_cases import ImageCase, assert_equal_to_the_cpu, batch_items, image_cases, kimi_configs

K25_TINY = dataclasses.replace(PRESETS["kimi-k2.5"], in_patch_limit=1, patch_limit_on_one_side=10)
K3_TINY = dataclasses.replace(PRESETS["kimi-k3"], in_patch_limit=1, patch_limit_on_one_side=10)
K3_SMALL = dataclasses.replace(PRESETS["kimi-k3"], in_patch_limit=16, patch_limit_on_one_side=10)
PATCHES_OF_64_PX = dataclasses.replace(PRESETS["kimi-k3"], patch_size=64)
RGB = ImageCase(Size(90, 61), "noise", has_alpha=False, already_resized=False, seed=1)
RGBA = dataclasses.replace(RGB, has_alpha=True, seed=2)
PORTRAIT = dataclasses.replace(RGBA, size=Size(40, 130), seed=3)
SMALL = dataclasses.replace(RGB, size=Size(20, 17), seed=4)

slow_device = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="session")
def device() -> InterpreterDevice:
    return InterpreterDevice()


@slow_device
@given(st.lists(image_cases(400), min_size=1, max_size=3), kimi_configs(), st.sampled_from(ElementType))
def test_mixed_batches_equal_the_cpu(
    device: InterpreterDevice, cases: list[ImageCase], config: KimiConfig, element_type: ElementType
) -> None:
    assert_equal_to_the_cpu(cases, CudaTransform(config, element_type, device))


@settings(slow_device, max_examples=5)
@given(image_cases(160), kimi_configs(), st.sampled_from(ElementType), st.integers(20_000, 120_000))
def test_an_image_cut_into_strips_equals_the_cpu(
    device: InterpreterDevice, case: ImageCase, config: KimiConfig, element_type: ElementType, max_scratch_bytes: int
) -> None:
    assert_equal_to_the_cpu([case], CudaTransform(config, element_type, device, max_scratch_bytes=max_scratch_bytes))


@pytest.mark.parametrize("kernel", ResampleKernel)
def test_the_tiles_of_a_real_device_give_the_same_bytes(device: InterpreterDevice, kernel: ResampleKernel) -> None:
    config = dataclasses.replace(K3_SMALL, resample_kernel=kernel)
    transform = CudaTransform(config, ElementType.BFLOAT16, device, tiles=tile_shape(config.arithmetic.layout))
    assert_equal_to_the_cpu([PORTRAIT, SMALL], transform)


def test_a_mixed_batch_of_32_images_takes_two_launches(device: InterpreterDevice) -> None:
    shapes = [Size(1 + 3 * index, 40 - index) for index in range(32)]
    cases = [
        dataclasses.replace(RGBA if index % 2 else RGB, size=size, already_resized=index % 5 == 0, seed=index)
        for index, size in enumerate(shapes)
    ]
    config = dataclasses.replace(K3_SMALL, in_patch_limit=4)
    transform = CudaTransform(config, ElementType.UINT8, device)
    assert_equal_to_the_cpu(cases, transform)
    assert transform.launch_count == 2


def test_a_batch_without_a_resize_takes_one_launch(device: InterpreterDevice) -> None:
    transform = CudaTransform(K3_SMALL, ElementType.FLOAT32, device)
    assert_equal_to_the_cpu([SMALL, dataclasses.replace(SMALL, has_alpha=True)], transform)
    assert transform.launch_count == 1


def test_no_sum_or_product_leaves_int32(device: InterpreterDevice) -> None:
    hardest = [dataclasses.replace(case, texture="edges") for case in (PORTRAIT, RGB)]
    check_int32_overflow(True)
    try:
        assert_equal_to_the_cpu(hardest, CudaTransform(K3_SMALL, ElementType.UINT8, device))
    finally:
        check_int32_overflow(False)


def test_an_empty_batch_takes_no_launch(device: InterpreterDevice) -> None:
    transform = CudaTransform(K3_SMALL, ElementType.FLOAT32, device)
    assert transform.run_batch([]) == ()
    assert transform.launch_count == 0


def test_a_batch_above_the_scratch_bound_is_split_and_says_the_same(device: InterpreterDevice) -> None:
    cases = [SMALL, RGB, PORTRAIT, SMALL]
    transform = CudaTransform(K3_SMALL, ElementType.FLOAT32, device, max_scratch_bytes=80_000)
    assert_equal_to_the_cpu(cases, transform)
    assert transform.launch_count > 4


def test_buffers_of_the_batch_before_leave_no_trace(device: InterpreterDevice) -> None:
    transform = CudaTransform(K3_SMALL, ElementType.UINT8, device)
    for cases in ([PORTRAIT], [SMALL], [RGB, PORTRAIT], [dataclasses.replace(PORTRAIT, texture="edges")]):
        assert_equal_to_the_cpu(cases, transform)


@pytest.mark.parametrize("config", [K25_TINY, K3_TINY], ids=["K2.5", "K3"])
def test_every_colour_mode_equals_the_reference_in_one_batch(device: InterpreterDevice, config: KimiConfig) -> None:
    images = [image for image in generated_images(include_large=False) if image.name.endswith("-29x27")]
    assert {image.mode for image in images} >= {"RGB", "RGBA", "L", "LA", "P", "PA", "1", "CMYK", "I", "I;16", "F"}
    background = None if config.transparent_background is None else ReferenceBackground("chessboard", 8, True, 255, 180)
    reference_config = ReferenceConfig(
        patch_size=14,
        merge_kernel_size=2,
        in_patch_limit=1,
        patch_limit_on_one_side=10,
        image_mean=config.image_mean,
        image_std=config.image_std,
        background=background,
        fill_stage="before_resize" if background is None else "after_resize",
    )
    items: list[BatchItem] = []
    for image in images:
        source = image.source
        if isinstance(source, RawImage):
            size = Size(source.width_px, source.height_px)
            plan = plan_image(config, size)
            prepared = prepare_raw_pixels(source.data, size, PixelFormat[source.pixel_format], plan, config)
        else:
            decoded = Image.open(io.BytesIO(source))
            decoded.load()
            plan = plan_image(config, Size(*decoded.size))
            prepared = prepare_image(decoded, plan, config)
        items.append((prepared, plan, np.empty(plan.feature_bytes(ElementType.FLOAT32), np.uint8)))
    assert CudaTransform(config, ElementType.FLOAT32, device).run_batch(items) == (None,) * len(items)
    for image, (_, _, rows) in zip(images, items, strict=True):
        assert isinstance(rows, np.ndarray)
        expected = reference_features(image.source, reference_config, "FLOAT32").pixel_values
        assert rows.tobytes() == expected.tobytes(), image.name


class SmallMemory(InterpreterDevice):
    """A device with little memory, that knows how much of it is out."""

    def __init__(self, largest_block_bytes: int) -> None:
        super().__init__()
        self.largest_block_bytes = largest_block_bytes
        self.release_count = 0
        self.used_bytes = 0
        self.most_used_bytes = 0

    def allocate_device(self, size_bytes: int) -> torch.Tensor:
        if size_bytes > self.largest_block_bytes:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more than there is")
        tensor = super().allocate_device(size_bytes)
        self.used_bytes += size_bytes
        self.most_used_bytes = max(self.most_used_bytes, self.used_bytes)
        weakref.finalize(tensor, self._take_back, size_bytes)
        return tensor

    def _take_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes

    def release_unused(self) -> None:
        self.release_count += 1


def faults_of(transform: CudaTransform, cases: list[ImageCase]) -> list[ItemReason | None]:
    items, _ = batch_items(cases, transform.config, transform.element_type)
    return [fault.reason if isinstance(fault, ItemFault) else None for fault in transform.run_batch(items)]


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> SmallMemory:
    """A device that has blocks of a megabyte."""
    monkeypatch.setattr(lane, "COEFFICIENT_WORDS", 64 * 1024)
    return SmallMemory(1024 * 1024)


def test_device_memory_stays_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "COEFFICIENT_WORDS", 64 * 1024)
    device = SmallMemory(1 << 40)
    transform = CudaTransform(K3_SMALL, ElementType.FLOAT32, device, max_scratch_bytes=400_000)
    for cases in ([SMALL], [RGB, PORTRAIT, SMALL, RGBA], [dataclasses.replace(RGB, size=Size(300, 200))]):
        assert_equal_to_the_cpu(cases, transform)
    assert transform.launch_count > 8
    coefficient_bytes = 2 * 4 * 64 * 1024
    launch_header_bytes = 2 * 32 * 1024
    assert device.most_used_bytes <= 400_000 + coefficient_bytes + launch_header_bytes
    transform.release()
    assert device.used_bytes == 0


def test_an_image_too_large_for_the_device_fails_alone(small_memory: SmallMemory) -> None:
    transform = CudaTransform(PATCHES_OF_64_PX, ElementType.FLOAT32, small_memory)
    large = dataclasses.replace(RGB, size=Size(1200, 1200))
    assert faults_of(transform, [SMALL, large, SMALL]) == [None, ItemReason.DEVICE_OUT_OF_MEMORY, None]
    assert small_memory.release_count > 0
    assert_equal_to_the_cpu([SMALL], transform)


def test_a_batch_too_large_for_the_device_is_done_image_by_image(small_memory: SmallMemory) -> None:
    cases = [dataclasses.replace(RGB, size=Size(120, 100), seed=seed) for seed in range(8)]
    transform = CudaTransform(PATCHES_OF_64_PX, ElementType.FLOAT32, small_memory)
    assert_equal_to_the_cpu(cases, transform)
    assert small_memory.release_count > 0
    assert transform.launch_count == len(cases)


def test_transforms_of_one_device_share_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "COEFFICIENT_WORDS", 64 * 1024)
    device = SmallMemory(1 << 40)
    first = CudaTransform(K3_SMALL, ElementType.FLOAT32, device)
    assert_equal_to_the_cpu([RGBA], first)
    used_bytes = device.used_bytes
    second = CudaTransform(K25_TINY, ElementType.BFLOAT16, device)
    assert_equal_to_the_cpu([RGB], second)
    assert device.used_bytes == used_bytes
    assert (first.launch_count, second.launch_count) == (2, 2)


class BreakableDevice(InterpreterDevice):
    """A device that can fail in a way that has nothing to do with memory."""

    is_broken = False

    def allocate_device(self, size_bytes: int) -> torch.Tensor:
        if self.is_broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return super().allocate_device(size_bytes)


def test_an_error_of_the_device_reaches_the_caller_and_the_next_batch_is_right() -> None:
    device = BreakableDevice()
    transform = CudaTransform(K3_SMALL, ElementType.UINT8, device)
    device.is_broken = True
    with pytest.raises(RuntimeError, match="illegal memory access"):
        faults_of(transform, [SMALL])
    device.is_broken = False
    assert_equal_to_the_cpu([SMALL], transform)


def test_a_process_that_interprets_does_not_compile(device: InterpreterDevice) -> None:
    assert device.kernels.is_interpreted
    with pytest.raises(RuntimeError, match="Expected compiled kernels"):
        load_kernels(interpreted=False)


def test_memory_of_the_wrong_size_is_refused(device: InterpreterDevice) -> None:
    transform = CudaTransform(K3_SMALL, ElementType.UINT8, device)
    [(prepared, plan, rows)], _ = batch_items([SMALL], K3_SMALL, ElementType.UINT8)
    with pytest.raises(ValueError, match="Expected memory of shape"):
        transform.run_batch([(prepared, plan, rows[1:])])
    with pytest.raises(ValueError, match="Expected pixels of shape"):
        transform.run_batch([(dataclasses.replace(prepared, pixels=prepared.pixels[1:]), plan, rows)])


def test_the_warm_up_runs_every_variant(device: InterpreterDevice) -> None:
    transform = CudaTransform(K3_SMALL, ElementType.UINT8, device)
    transform.warm_up()
    assert transform.launch_count == 6
    transform.release()
    assert_equal_to_the_cpu([SMALL], transform)
