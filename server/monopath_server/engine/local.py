"""LOCAL: features that the client finished, held to the plan of their original size and converted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monopath_server.engine.buffers import Buffer
from monopath_server.engine.device_rows import Place, take_host_rows
from monopath_server.engine.items import Features, Provenance, Route, Timings
from monopath_server.engine.resources import Resources
from monopath_server.engine.rows import Holding
from monopath_server.engine.workers import CancelToken, JobCancelled
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.digest import config_digest
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.plans import PatchGridPlan, TilePlan
from monopath_server.processors.types import ElementType, GridTHW, ImagePlan, Size, TileGrid
from monopath_server.transforms.convert import convert_rows, first_non_finite

__all__ = ["LocalEngine", "LocalItem", "LocalWork"]


@dataclass(frozen=True, slots=True)
class LocalItem:
    """What a client says of the features it finished."""

    id: int
    label: str
    original_size: Size
    grid_thw: GridTHW | None
    tile_grid: TileGrid | None
    """None: not said, which is no contradiction."""
    token_count: int
    element_type: ElementType
    shape: tuple[int, ...]
    size_bytes: int
    content_sha256: bytes


class LocalWork:
    """A local item that fits its plan, and the bytes of it that have come."""

    def __init__(self, engine: LocalEngine, item: LocalItem) -> None:
        """Raises `ItemFault` where what the client says contradicts the plan."""
        started_ns = time.perf_counter_ns()
        self._engine = engine
        self.item = item
        self.image_plan = engine.check(item)
        self._memory = engine.take_buffer(item.size_bytes)
        self._received = Holding(self._memory)
        self._received_bytes = 0
        self._read: Callable[[memoryview], None] | None = None
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.planning_ns = time.perf_counter_ns() - started_ns

    @property
    def size_bytes(self) -> int:
        return self.item.size_bytes

    @property
    def pixel_count(self) -> int:
        return 0

    @property
    def input(self) -> LocalWork:
        return self

    @property
    def is_awaited(self) -> bool:
        return not self._complete.done()

    async def plan(self) -> ImagePlan:
        return self.image_plan

    async def features(self, token: CancelToken, place: Place, charge: Callable[[], None]) -> Features:
        """Wait for all bytes, then check and convert them. Raises `ItemFault`."""
        charge()
        await self._complete
        return await self._engine.features(self, token, place)

    def write(self, offset_bytes: int, data: bytes) -> None:
        """Take the next bytes. Wrong ones fail the item, not the caller."""
        if not self.is_awaited:
            return
        end_bytes = offset_bytes + len(data)
        if offset_bytes != self._received_bytes:
            self._fail(f"Expected the next chunk at offset {self._received_bytes}, got {offset_bytes}")
        elif end_bytes > self.item.size_bytes:
            self._fail(f"Expected {self.item.size_bytes} bytes in all, got a chunk up to {end_bytes}")
        else:
            self._memory.array[offset_bytes:end_bytes] = np.frombuffer(data, dtype=np.uint8)
            self._received_bytes = end_bytes
            if end_bytes == self.item.size_bytes:
                self._complete.set_result(None)

    def read_from(self, read: Callable[[memoryview], None], size_bytes: int) -> None:
        """Take all bytes at once, which `read` copies in a worker. Wrong ones fail the item, not the caller."""
        if not self.is_awaited:
            return
        if self._received_bytes or size_bytes != self.item.size_bytes:
            self._fail(
                f"Expected all {self.item.size_bytes} bytes behind one handle, got {size_bytes} "
                f"after {self._received_bytes} in chunks"
            )
        else:
            self._read = read
            self._complete.set_result(None)

    @contextlib.contextmanager
    def received(self) -> Iterator[NDArray[np.uint8]]:
        """All bytes of the item, uint8 [size_bytes], fetched from where they are. Runs in a worker.

        Nobody else gets their memory meanwhile, whatever becomes of the item. Raises `ItemFault`, `JobCancelled`.
        """
        try:
            holding = self._received.share()
        except RuntimeError:
            raise JobCancelled from None
        try:
            array = self._memory.array
            if self._read is not None:
                self._read(array.data)
            yield array
        finally:
            holding.release()

    def fail(self, error: Exception) -> None:
        if self.is_awaited:
            self._complete.set_exception(error)

    def end(self) -> None:
        self._fail(f"Expected {self.item.size_bytes} bytes, got {self._received_bytes} before the half-close")

    def release(self) -> None:
        """Let the received bytes go; a conversion that is under way holds them until it is over."""
        if not self._complete.done():
            self._complete.cancel()
        elif not self._complete.cancelled():
            self._complete.exception()  # retrieved here too, so that asyncio does not log one that nobody awaited
        self._received.release()

    def _fail(self, message: str) -> None:
        self.fail(ItemFault(ItemReason.FEATURES_INCOMPLETE, message))


class LocalEngine:
    """Checks and converts finished features."""

    device = ""

    def __init__(self, config: ProcessorConfig, element_type: ElementType, resources: Resources) -> None:
        self._config = config
        self._config_sha256 = config_digest(config)
        self._element_type = element_type
        self._resources = resources

    def check(self, item: LocalItem) -> ImagePlan:
        """Hold what the client says to the plan of the original size. Cheap; runs on the event loop.

        Raises:
            ItemFault: FEATURES_MISMATCH naming the first field that differs, FEATURES_TOO_LARGE over the limit.
        """
        plan = self._config.plan(item.original_size)
        _expect("grid_thw", plan.grid_thw if isinstance(plan, PatchGridPlan) else None, item.grid_thw)
        if item.tile_grid is not None:
            _expect("tile_grid", plan.tile_grid if isinstance(plan, TilePlan) else None, item.tile_grid)
        _expect("token_count", plan.token_count, item.token_count)
        _expect("features.shape", plan.shape, item.shape)
        _expect("features.size_bytes", plan.feature_bytes(item.element_type), item.size_bytes)
        if self._element_type is ElementType.UINT8 and item.element_type is not ElementType.UINT8:
            raise ItemFault(
                ItemReason.FEATURES_MISMATCH,
                f"Expected uint8 for a stream of uint8, got {item.element_type}: normalisation cannot be undone",
                field="features.data_type",
            )
        largest_bytes = max(item.size_bytes, plan.feature_bytes(self._element_type))
        limit_bytes = self._resources.max_feature_bytes
        if largest_bytes > limit_bytes:
            raise ItemFault(ItemReason.FEATURES_TOO_LARGE, f"Expected at most {limit_bytes} bytes, got {largest_bytes}")
        return plan

    def take_buffer(self, size_bytes: int) -> Buffer:
        """Memory for received bytes."""
        return self._resources.buffers.take(size_bytes)

    async def features(self, work: LocalWork, token: CancelToken, place: Place) -> Features:
        """Check that all elements are finite, and convert them, in a worker, into memory of `place`.

        Raises:
            ItemFault: FEATURES_NOT_FINITE.
        """
        queued_ns = time.perf_counter_ns()
        return await self._resources.workers.run(
            lambda: self._convert(work, place, queued_ns),
            token,
            lambda features: features.holding.release(),
            cost=work.item.size_bytes,
        )

    def _convert(self, work: LocalWork, place: Place, queued_ns: int) -> Features:
        started_ns = time.perf_counter_ns()
        item = work.item
        with work.received() as received:
            bad_index = first_non_finite(received, item.element_type)
            if bad_index is not None:
                raise ItemFault(
                    ItemReason.FEATURES_NOT_FINITE,
                    f"Expected finite elements, got a NaN or an infinity at element {bad_index}",
                    field="features",
                )
            rows = take_host_rows(place, work.image_plan.feature_bytes(self._element_type))
            try:
                convert_rows(received, item.element_type, rows.array, self._element_type, self._config)
                self._check_range(item.element_type, rows.array)
            except BaseException:
                rows.release()
                raise
        return Features(
            holding=Holding(rows),
            plan=work.image_plan,
            provenance=Provenance(self._config_sha256, item.content_sha256, None, Route.CLIENT),
            timings=Timings(
                planning_ns=work.planning_ns,
                queued_ns=started_ns - queued_ns,
                transforming_ns=time.perf_counter_ns() - started_ns,
            ),
        )

    def _check_range(self, sent_type: ElementType, rows: NDArray[np.uint8]) -> None:
        """A value that is finite in the type it was sent in can be infinite in a shorter one."""
        if sent_type in (self._element_type, ElementType.UINT8):
            return
        bad_index = first_non_finite(rows, self._element_type)
        if bad_index is not None:
            raise ItemFault(
                ItemReason.FEATURES_NOT_FINITE,
                f"Expected elements that are finite in {self._element_type}, got a larger one at element {bad_index}",
                field="features",
            )


def _expect(field: str, expected: object, found: object) -> None:
    if expected != found:
        wanted, got = ("none" if value is None else value for value in (expected, found))
        raise ItemFault(ItemReason.FEATURES_MISMATCH, f"Expected {field} {wanted}, got {got}", field=field)
