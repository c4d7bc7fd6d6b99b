"""One item on its way through an engine, as a session sees it, whatever the path."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from monopath_server.engine.cache import ContentKey, FeatureCache
from monopath_server.engine.device_rows import Place
from monopath_server.engine.images import PlannedImage, Recall
from monopath_server.engine.items import CacheOutcome, Features, ImageItem, Timings
from monopath_server.engine.workers import CancelToken
from monopath_server.processors.types import ImagePlan

__all__ = ["ImageEngine", "ImageWork", "ItemInput", "ItemWork"]


class ItemInput(Protocol):
    """Bytes of an item that come after it. Wrong ones fail the item, not the caller."""

    @property
    def is_awaited(self) -> bool:
        """Bytes are still to come from the client."""

    def write(self, offset_bytes: int, data: bytes) -> None:
        """Take the next bytes."""

    def read_from(self, read: Callable[[memoryview], None], size_bytes: int) -> None:
        """Take all bytes at once, which `read` copies, in a worker."""

    def fail(self, error: Exception) -> None:
        """The bytes cannot be taken."""

    def end(self) -> None:
        """No more bytes will come."""


class ItemWork(Protocol):
    """An accepted item. `plan` is awaited once, then `features`; `release` is called on every way out."""

    @property
    def size_bytes(self) -> int:
        """Bytes that the item itself holds."""

    @property
    def pixel_count(self) -> int:
        """Pixels that are decoded for the item. Known once it is planned."""

    @property
    def input(self) -> ItemInput | None:
        """Takes the item's bytes; None for an item that came with them."""

    async def plan(self) -> ImagePlan:
        """What will come of the item. Raises `ItemFault`."""

    async def features(self, token: CancelToken, place: Place, charge: Callable[[], None]) -> Features:
        """The item's features, made in memory of `place`, or taken from where they are. Raises `ItemFault`.

        `charge` is called before they are made for this item, and raises `ItemFault` where there is no room for them.
        """

    def release(self) -> None:
        """Give back what the item holds."""


class ImageEngine(Protocol):
    """Plans images and makes their features: on the CPU, or on a GPU."""

    device: str

    async def plan(self, image: ImageItem | Callable[[], ImageItem], recall: Recall | None) -> PlannedImage:
        """Plan from the header, before any pixel is decoded. Raises `ItemFault`.

        `image` may be what fetches it, in a worker. `recall` is asked for the plan of content that was planned before,
        by any thread.
        """

    async def key(self, planned: PlannedImage, token: CancelToken) -> tuple[ContentKey, PlannedImage]:
        """What decides the features' bytes, and the image with its digest, so that nobody makes it again."""

    async def features(self, planned: PlannedImage, token: CancelToken, place: Place) -> Features:
        """Decode and transform, into memory of `place`. Raises `ItemFault`."""


class ImageWork:
    """An image of a deferred path: it came whole, in one message."""

    input = None

    def __init__(self, engine: ImageEngine, item: ImageItem, cache: FeatureCache | None) -> None:
        """`cache` is None where features are to be made anew, or stay on a device."""
        self._engine = engine
        self._item = item
        self._cache = cache
        self._planned: PlannedImage | None = None

    @property
    def size_bytes(self) -> int:
        return self._item.size_bytes

    @property
    def pixel_count(self) -> int:
        return 0 if self._planned is None else self._planned.pixel_count

    async def plan(self) -> ImagePlan:
        recall = None if self._cache is None else self._cache.plan_of
        self._planned = await self._engine.plan(self._image, recall)
        return self._planned.plan

    @property
    def _image(self) -> ImageItem | Callable[[], ImageItem]:
        """The image with its bytes, or what fetches it."""
        return self._item

    async def features(self, token: CancelToken, place: Place, charge: Callable[[], None]) -> Features:
        if self._planned is None:
            raise RuntimeError("Expected a planned image, got one without a plan")
        if self._cache is None:
            charge()
            return await self._engine.features(self._planned, token, place)
        started_ns = time.perf_counter_ns()
        engine = self._engine
        key, planned = await engine.key(self._planned, token)
        keyed_ns = time.perf_counter_ns()

        async def make(flight_token: CancelToken) -> Features:
            charge()
            return await engine.features(planned, flight_token, place)

        features = await self._cache.features(key, make, token, device=engine.device)
        if features.cache is CacheOutcome.MISS:
            timings = replace(features.timings, queued_ns=features.timings.queued_ns + keyed_ns - started_ns)
        else:
            timings = Timings(planning_ns=planned.planning_ns, queued_ns=time.perf_counter_ns() - started_ns)
        return replace(features, timings=timings)

    def release(self) -> None:
        """An image holds no memory of a pool."""
