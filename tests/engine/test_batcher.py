"""Micro-batches: what waits goes together, within bounds, and only the guilty fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from monopath_server.engine.batcher import Batcher
from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.executors import RestartingExecutor
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import GridTHW, ImagePlan, Padding, Size


class FakeDevice:
    """Writes each image's patch count into its first byte; can be held, and fails for chosen counts."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_run = threading.Event()
        self.may_run.set()
        self.is_running = threading.Event()
        self.guilty: dict[int, Exception] = {}

    def run_batch(self, items: Sequence[Any]) -> tuple[ItemFault | None, ...]:
        self.is_running.set()
        assert self.may_run.wait(30)
        counts = [plan.row_count for _, plan, _ in items]
        self.batches.append(counts)
        for count in counts:
            if count in self.guilty and not isinstance(self.guilty[count], ItemFault):
                raise self.guilty[count]
        faults: list[ItemFault | None] = []
        for _, plan, rows in items:
            rows[0] = plan.row_count
            guilty = self.guilty.get(plan.row_count)
            faults.append(guilty if isinstance(guilty, ItemFault) else None)
        return tuple(faults)


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def executor() -> Iterator[RestartingExecutor]:
    pool = RestartingExecutor(lambda: ThreadPoolExecutor(1))
    yield pool
    pool.close()


POOL = BufferPool(idle_bytes=0)
PIXELS = PreparedPixels(np.zeros((1, 1, 4), np.uint8), False, False, "RGB", ResizeRoute.KERNEL)


def image(patches: int) -> ImagePlan:
    return PatchGridPlan(
        original_size=Size(1, 1),
        resized_size=Size(1, 1),
        token_count=1,
        padding=Padding(0, 0),
        grid_thw=GridTHW(1, 1, patches),
        patch_size=14,
    )


async def transform(batcher: Batcher, patches: int) -> int:
    with POOL.take(100) as rows:
        await batcher.transform(PIXELS, image(patches), rows)
        return int(rows.array[0])


async def start(batcher: Batcher, counts: Sequence[int]) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(transform(batcher, count)) for count in counts]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.asyncio
async def test_what_comes_while_the_device_works_makes_up_the_next_batch(
    device: FakeDevice, executor: RestartingExecutor
) -> None:
    told: list[int] = []
    batcher = Batcher(device.run_batch, executor, max_items=64, max_patches=1000, wait_us=0, on_batch=told.append)
    device.may_run.clear()
    tasks = await start(batcher, [1])
    await asyncio.to_thread(device.is_running.wait, 30)
    tasks += await start(batcher, [2, 3, 4])
    assert batcher.waiting_count == 3
    device.may_run.set()
    assert await asyncio.gather(*tasks) == [1, 2, 3, 4]
    assert device.batches == [[1], [2, 3, 4]]
    assert told == [1, 3]
    assert batcher.waiting_count == 0


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        ({"max_items": 2, "max_patches": 1000}, [[9], [1, 2], [3, 4]]),
        ({"max_items": 9, "max_patches": 5}, [[9], [1, 2], [3], [4]]),
    ],
)
@pytest.mark.asyncio
async def test_batches_stay_within_their_bounds(
    limits: dict[str, Any], batches: list[list[int]], device: FakeDevice, executor: RestartingExecutor
) -> None:
    batcher = Batcher(device.run_batch, executor, **limits, wait_us=0)
    device.may_run.clear()
    tasks = await start(batcher, [9])
    await asyncio.to_thread(device.is_running.wait, 30)
    tasks += await start(batcher, [1, 2, 3, 4])
    device.may_run.set()
    await asyncio.gather(*tasks)
    assert device.batches == batches


@pytest.mark.parametrize(
    "error", [RuntimeError("broken"), ItemFault(ItemReason.DEVICE_OUT_OF_MEMORY, "no memory")], ids=["crash", "fault"]
)
@pytest.mark.asyncio
async def test_only_the_guilty_item_fails(error: Exception, device: FakeDevice, executor: RestartingExecutor) -> None:
    device.guilty[5] = error
    batcher = Batcher(device.run_batch, executor, max_items=64, max_patches=1000, wait_us=0)
    results = await asyncio.gather(*(transform(batcher, count) for count in range(1, 9)), return_exceptions=True)
    assert results == [1, 2, 3, 4, error, 6, 7, 8]


@pytest.mark.asyncio
async def test_a_waiting_item_that_is_cancelled_never_reaches_the_device(
    device: FakeDevice, executor: RestartingExecutor
) -> None:
    batcher = Batcher(device.run_batch, executor, max_items=64, max_patches=1000, wait_us=0)
    device.may_run.clear()
    tasks = await start(batcher, [1, 2])
    await asyncio.to_thread(device.is_running.wait, 30)
    tasks += await start(batcher, [3, 4])
    tasks[2].cancel()
    device.may_run.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results.pop(2), asyncio.CancelledError)
    assert results == [1, 2, 4]
    assert [3] not in device.batches
    assert sorted(count for batch in device.batches for count in batch) == [1, 2, 4]


@pytest.mark.asyncio
async def test_memory_that_the_device_writes_is_not_given_back_before_the_batch_is_over(
    device: FakeDevice, executor: RestartingExecutor
) -> None:
    batcher = Batcher(device.run_batch, executor, max_items=64, max_patches=1000, wait_us=0)
    device.may_run.clear()
    (task,) = await start(batcher, [1])
    await asyncio.to_thread(device.is_running.wait, 30)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    assert POOL.held_bytes > 0
    device.may_run.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert POOL.held_bytes == 0


@pytest.mark.asyncio
async def test_a_second_cancellation_does_not_give_back_what_the_device_still_writes(
    device: FakeDevice, executor: RestartingExecutor
) -> None:
    batcher = Batcher(device.run_batch, executor, max_items=64, max_patches=1000, wait_us=0)
    device.may_run.clear()
    (task,) = await start(batcher, [1])
    await asyncio.to_thread(device.is_running.wait, 30)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        assert POOL.held_bytes > 0
    device.may_run.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert POOL.held_bytes == 0


@pytest.mark.asyncio
async def test_images_that_come_to_closed_workers_fail_instead_of_waiting_for_ever(
    device: FakeDevice, executor: RestartingExecutor
) -> None:
    batcher = Batcher(device.run_batch, executor, max_items=64, max_patches=1000, wait_us=0)
    executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        await asyncio.wait_for(transform(batcher, 1), timeout=30)
