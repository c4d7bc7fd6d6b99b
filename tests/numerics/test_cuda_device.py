"""The CUDA transform on a real GPU: `make test-cuda`. The same comparisons as interpreted, and larger ones."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType, Size
from monopath_server.transforms.cuda.device import CudaDevice
from monopath_server.transforms.cuda.probe import probe_cuda
from monopath_server.transforms.cuda.transform import CudaTransform
from tests.numerics.cuda_cases import ImageCase, assert_equal_to_the_cpu, image_cases, kimi_configs

pytestmark = pytest.mark.cuda

NOISE = ImageCase(Size(1, 1), "noise", has_alpha=False, already_resized=False, seed=5)


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return CudaDevice(0)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(image_cases(1600), min_size=1, max_size=12), kimi_configs(), st.sampled_from(ElementType))
def test_mixed_batches_equal_the_cpu_on_the_gpu(
    device: CudaDevice, cases: list[ImageCase], config: KimiConfig, element_type: ElementType
) -> None:
    assert_equal_to_the_cpu(cases, CudaTransform(config, element_type, device))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(image_cases(800), min_size=1, max_size=4), kimi_configs(), st.integers(20_000, 500_000))
def test_strips_equal_the_cpu_on_the_gpu(
    device: CudaDevice, cases: list[ImageCase], config: KimiConfig, max_scratch_bytes: int
) -> None:
    transform = CudaTransform(config, ElementType.BFLOAT16, device, max_scratch_bytes=max_scratch_bytes)
    assert_equal_to_the_cpu(cases, transform)


@pytest.mark.parametrize("preset", ["kimi-k2.5", "kimi-k3"])
@pytest.mark.parametrize("element_type", ElementType)
def test_images_of_real_size_equal_the_cpu_on_the_gpu(
    device: CudaDevice, preset: str, element_type: ElementType
) -> None:
    sizes = [(2048, 2048), (1290, 2796), (1920, 1080), (4000, 3000), (20000, 10), (10, 20000), (65535, 1), (1, 65535)]
    cases = [
        dataclasses.replace(NOISE, size=Size(*size), has_alpha=bool(index % 2), seed=index)
        for index, size in enumerate(sizes)
    ]
    assert_equal_to_the_cpu(cases, CudaTransform(PRESETS[preset], element_type, device))


def test_a_batch_of_32_images_takes_two_launches_on_the_gpu(device: CudaDevice) -> None:
    cases = [dataclasses.replace(NOISE, size=Size(100 + 20 * index, 1200 - 30 * index)) for index in range(32)]
    config = dataclasses.replace(PRESETS["kimi-k3"], in_patch_limit=256)
    transform = CudaTransform(config, ElementType.FLOAT32, device)
    assert_equal_to_the_cpu(cases, transform)
    assert transform.launch_count == 2


LAST_DEVICE = """
import subprocess, sys, os
import torch
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType
from monopath_server.transforms.cuda.device import CudaDevice
from monopath_server.transforms.cuda.probe import probe_cuda
from monopath_server.transforms.cuda.transform import CudaTransform

facts = probe_cuda().devices[-1]
CudaTransform(PRESETS["kimi-k3"], ElementType.BFLOAT16, CudaDevice(facts.index)).warm_up()
listing = subprocess.run(
    ["nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"], capture_output=True, text=True
).stdout
mine = {line.split(", ")[1] for line in listing.splitlines() if line.split(", ")[0] == str(os.getpid())}
sys.exit(0 if mine <= {facts.uuid} else f"Expected a context on {facts.uuid} only, got {mine}")
"""


def test_a_context_is_made_on_the_chosen_device_only(device: CudaDevice) -> None:
    assert device.torch_device.index == 0
    if len(probe_cuda().devices) < 2:
        pytest.skip("needs two CUDA devices")
    result = subprocess.run(
        [sys.executable, "-c", LAST_DEVICE], capture_output=True, text=True, timeout=110, check=False
    )
    assert result.returncode == 0, result.stderr
