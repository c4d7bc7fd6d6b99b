"""What `make bench-cuda` times is what it says, as far as a CPU can tell: the textbook, the batches, the rounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType, Size
from monopath_server.transforms.cpu.transform import CpuTransform
from monopath_server.transforms.cuda.device import InterpreterDevice
from tests.bench.bench_cuda import HEADINGS, copy_bandwidth, cpu_time_ms, device_times, line
from tests.bench.cuda_batches import Batch, make_batch, wanted_batches
from tests.bench.device_clock import HostClock
from tests.bench.torch_textbook import Textbook

SMALL = dataclasses.replace(PRESETS["kimi-k2.5"], in_patch_limit=16, patch_limit_on_one_side=16)
LEVEL = 2 / 255
"""Between two pixel values, after the normalisation."""


def expected_rows(batch: Batch) -> list[NDArray[np.float32]]:
    transform = CpuTransform(batch.config, batch.element_type)
    found: list[NDArray[np.float32]] = []
    for prepared, plan, memory in batch.items:
        transform.rows_into(prepared, plan, memory)
        found.append(memory.view(np.float32).reshape(plan.shape).copy())
    return found


def textbook_rows(batch: Batch) -> list[torch.Tensor]:
    textbook = Textbook(batch.config, batch.element_type, torch.device("cpu"))
    return textbook.batch(batch.on_device(torch.device("cpu")))


def test_without_a_resize_the_textbook_has_the_exact_values() -> None:
    batch = make_batch("copied", "kimi-k3", [Size(45, 60)] * 3, ElementType.FLOAT32)
    [rows] = textbook_rows(batch)
    np.testing.assert_allclose(rows.numpy(), np.concatenate(expected_rows(batch)), atol=1e-6)


def test_resized_the_textbook_is_a_few_levels_off_at_most() -> None:
    batch = make_batch("resized", SMALL, [Size(211, 170), Size(90, 300), Size(211, 170)], ElementType.FLOAT32)
    first, second, third = expected_rows(batch)
    [equal_ones, other] = textbook_rows(batch)
    for found, expected in ((equal_ones.numpy(), np.concatenate([first, third])), (other.numpy(), second)):
        assert found.shape == expected.shape
        difference = np.abs(found - expected)
        # Noise is the worst there is: every level between the passes is rounded by the one and not by the other.
        assert difference.max() <= 8 * LEVEL
        assert difference.mean() <= 0.25 * LEVEL


def test_a_round_times_everything_once_and_makes_the_features() -> None:
    device, rounds = InterpreterDevice(), 2
    batch = make_batch("two", SMALL, [Size(70, 61), Size(20, 17)], ElementType.FLOAT32)
    expected = expected_rows(batch)
    for _, _, memory in batch.items:
        memory.fill(0xA5)
    times = device_times(batch, device, HostClock(), rounds)
    for samples in dataclasses.astuple(times):
        assert len(samples) == rounds
        assert min(samples) > 0
    for (_, plan, memory), rows in zip(batch.items, expected, strict=True):
        np.testing.assert_array_equal(memory.view(np.float32).reshape(plan.shape), rows)
    kernels, run_batch = times.kernels, times.run_batch
    assert all(inner < outer for inner, outer in zip(kernels, run_batch, strict=True))
    cells = line(batch, times, cpu_time_ms(batch, 1), copy_bandwidth(device, HostClock(), 1 << 16)).split()
    assert len(cells) == 2 + len(HEADINGS)
    assert all(float(cell) >= 0 for cell in cells[2:])


def test_a_line_without_a_gpu_has_the_cpu_alone() -> None:
    batch = make_batch("one", SMALL, [Size(20, 17)], ElementType.UINT8)
    cells = line(batch, None, 1.5, None).split()
    assert [cell for cell in cells[2:] if cell != "-"] == ["1.500"]


@pytest.mark.parametrize(
    ("size", "between_px"),
    [
        (Size(20, 30), 0),  # not resized: there is nothing between
        (Size(112, 56), 79 * 56),  # to 79 x 39, the width first
        (Size(40, 160), 40 * 136),  # to 34 x 136, the height first
    ],
)
def test_traffic_counts_every_byte_that_has_to_move_once(size: Size, between_px: int) -> None:
    batch = make_batch("any", SMALL, [size, size], ElementType.BFLOAT16)
    [(_, plan, _), _] = batch.items
    pixel_bytes = 4 * size.width_px * size.height_px
    row_bytes = plan.grid_thw.h * plan.grid_thw.w * 3 * 14 * 14 * 2
    assert (batch.upload_bytes, batch.feature_bytes) == (2 * pixel_bytes, 2 * row_bytes)
    assert batch.traffic_bytes == 2 * (pixel_bytes + 2 * 4 * between_px + row_bytes)


def test_all_batches_of_the_issue_are_wanted() -> None:
    names = [batch.name for batch in wanted_batches(ElementType.UINT8, max_count=8)]
    wanted = [f"{preset} {count} x {side}^2" for preset in PRESETS for side in (256, 1024, 2048) for count in (1, 8)]
    assert [name for name in names if "mixed" not in name] == wanted
    assert [name for name in names if "mixed" in name] == [f"{preset} 6 mixed" for preset in PRESETS]
