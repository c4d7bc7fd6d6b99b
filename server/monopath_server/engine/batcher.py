"""Micro-batches for one transform on one device: whatever waits when the device is free goes together."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monopath_server.engine.device_rows import DeviceRows
from monopath_server.engine.executors import ExecutorUnavailable, RestartingExecutor
from monopath_server.engine.rows import HostRows
from monopath_server.faults import ItemFault
from monopath_server.media.prepare import PreparedPixels
from monopath_server.processors.types import ImagePlan

__all__ = ["BatchTimes", "Batcher"]

BatchItem = tuple[PreparedPixels, ImagePlan, NDArray[np.uint8] | DeviceRows]
RunBatch = Callable[[Sequence[BatchItem]], tuple[ItemFault | None, ...]]

TRIES = 2
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Nanoseconds that an item waited for the device, and that its batch took."""

    queued_ns: int
    transforming_ns: int


@dataclass(slots=True, eq=False)
class _Entry:
    prepared: PreparedPixels
    plan: ImagePlan
    rows: HostRows | DeviceRows
    since_ns: int
    done: asyncio.Future[BatchTimes]


class Batcher:
    """Runs images of one config and element type on a device's one thread. Used on the event loop only.

    An image that comes to an idle device starts at once if no other is on its way; what comes while the device works
    makes up the next batch. Batches cannot change bytes, since each image owns its rows.
    """

    def __init__(
        self,
        run_batch: RunBatch,
        executor: RestartingExecutor,
        *,
        max_items: int,
        max_patches: int,
        wait_us: int,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        """`on_batch` is told how many images go together."""
        self._run_batch = run_batch
        self._on_batch = on_batch
        self._executor = executor
        self._max_items = max_items
        self._max_patches = max_patches
        self._wait_seconds = wait_us / 1e6
        self._waiting: deque[_Entry] = deque()
        self._coming = 0
        self._arrived = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    @property
    def waiting_count(self) -> int:
        """Images that the device has not taken up yet."""
        return len(self._waiting)

    @contextlib.contextmanager
    def coming(self) -> Iterator[None]:
        """An image is on its way here: a device that is free waits for it, a little."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1
            self._arrived.set()

    async def transform(self, prepared: PreparedPixels, plan: ImagePlan, rows: HostRows | DeviceRows) -> BatchTimes:
        """Write the rows of an image into `rows`, which the caller owns again afterwards.

        Raises:
            ItemFault: DEVICE_OUT_OF_MEMORY.
        """
        loop = asyncio.get_running_loop()
        entry = _Entry(prepared, plan, rows, time.perf_counter_ns(), loop.create_future())
        self._waiting.append(entry)
        if self._pump is None:
            # Not in the context of this image, since its log is about all of them.
            self._pump = loop.create_task(self._run_all(), context=contextvars.Context())
        try:
            return await asyncio.shield(entry.done)
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
                raise
            # The device may be writing: the memory is not the caller's before the batch is over. The wait is short, and
            # a second cancellation (of the item, then of its stream) must not cut it off.
            while not entry.done.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((entry.done,))
            if not entry.done.cancelled():
                entry.done.exception()
            raise

    async def _run_all(self) -> None:
        try:
            while self._waiting:
                await self._wait_for_more()
                batch = self._next_batch()
                if not batch:
                    continue  # all were cancelled meanwhile
                if self._on_batch is not None:
                    self._on_batch(len(batch))
                started_ns = time.perf_counter_ns()
                try:
                    outcomes = await self._outcomes(batch)
                except asyncio.CancelledError:
                    # The event loop itself ends: nobody may wait for a batch that nobody watches any more.
                    for entry in batch:
                        entry.done.cancel()
                    raise
                finished_ns = time.perf_counter_ns()
                for entry, error in zip(batch, outcomes, strict=True):
                    if error is None:
                        entry.done.set_result(BatchTimes(started_ns - entry.since_ns, finished_ns - started_ns))
                    else:
                        entry.done.set_exception(error)
        finally:
            self._pump = None

    async def _wait_for_more(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._wait_seconds
        while self._coming and not self._is_full():
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return

    def _is_full(self) -> bool:
        patches = sum(entry.plan.row_count for entry in self._waiting)
        return len(self._waiting) >= self._max_items or patches >= self._max_patches

    def _next_batch(self) -> list[_Entry]:
        batch: list[_Entry] = []
        patches = 0
        while self._waiting and len(batch) < self._max_items:
            patches += self._waiting[0].plan.row_count
            if batch and patches > self._max_patches:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _outcomes(self, batch: Sequence[_Entry]) -> list[Exception | None]:
        for _ in range(TRIES):
            try:
                return await asyncio.wrap_future(self._executor.submit(lambda: self._run(batch)))
            except BrokenExecutor as error:
                logger.error("The device's thread died with a batch of %d items", len(batch), exc_info=error)
            except Exception as error:
                # Whatever it is, those who wait for this batch must hear of it.
                return [error] * len(batch)
        return [ExecutorUnavailable("The device's thread died again and again")] * len(batch)

    def _run(self, batch: Sequence[_Entry]) -> list[Exception | None]:
        """Run a batch on the device's thread; where it fails as a whole, by halves, so that only the guilty fail."""
        try:
            return list(self._run_batch([_batch_item(entry) for entry in batch]))
        except Exception as error:
            if len(batch) == 1:
                return [error]
            logger.warning("A batch of %d items failed and is run by halves", len(batch), exc_info=error)
            half = len(batch) // 2
            return self._run(batch[:half]) + self._run(batch[half:])


def _batch_item(entry: _Entry) -> BatchItem:
    rows = entry.rows
    return entry.prepared, entry.plan, rows if isinstance(rows, DeviceRows) else rows.array
