"""One item on its way through an engine, as a session sees it, whatever the path."""

from __future__ import annotations

from typing import Protocol

from monopath_server.engine.images import PlannedImage
from monopath_server.engine.items import Features, ImageItem
from monopath_server.engine.workers import CancelToken
from monopath_server.processors.types import ImagePlan

__all__ = ["ImageEngine", "ImageWork", "ItemWork"]


class ItemWork(Protocol):
    """An accepted item. `plan` is awaited once, then `features`; `release` is called on every way out."""

    @property
    def size_bytes(self) -> int:
        """Bytes that the item itself holds."""

    @property
    def pixel_count(self) -> int:
        """Pixels that are decoded for the item. Known once it is planned."""

    @property
    def awaits_input(self) -> bool:
        """Bytes of the item are still to come from the client."""

    async def plan(self) -> ImagePlan:
        """What will come of the item. Raises `ItemFault`."""

    async def features(self, token: CancelToken) -> Features:
        """The item's features. Raises `ItemFault`."""

    def write(self, offset_bytes: int, data: bytes) -> None:
        """Take bytes of the item."""

    def fail_input(self, error: Exception) -> None:
        """The item's bytes cannot be taken."""

    def end_of_input(self) -> None:
        """No more bytes will come."""

    def release(self) -> None:
        """Give back what the item holds."""


class ImageEngine(Protocol):
    """Plans images and makes their features: on the CPU, or on a GPU."""

    device: str

    async def plan(self, item: ImageItem) -> PlannedImage:
        """Plan from the header, before any pixel is decoded. Raises `ItemFault`."""

    async def features(self, planned: PlannedImage, token: CancelToken) -> Features:
        """Decode and transform. Raises `ItemFault`."""


class ImageWork:
    """An image of a deferred path: it came whole, in one message."""

    awaits_input = False

    def __init__(self, engine: ImageEngine, item: ImageItem) -> None:
        self._engine = engine
        self._item = item
        self._planned: PlannedImage | None = None

    @property
    def size_bytes(self) -> int:
        return self._item.size_bytes

    @property
    def pixel_count(self) -> int:
        return 0 if self._planned is None else self._planned.pixel_count

    async def plan(self) -> ImagePlan:
        self._planned = await self._engine.plan(self._item)
        return self._planned.plan

    async def features(self, token: CancelToken) -> Features:
        if self._planned is None:
            raise RuntimeError("Expected a planned image, got one without a plan")
        return await self._engine.features(self._planned, token)

    def write(self, offset_bytes: int, data: bytes) -> None:
        raise RuntimeError(f"Expected no further bytes of an image, got {len(data)} at {offset_bytes}")

    def fail_input(self, error: Exception) -> None:
        raise RuntimeError("Expected no further bytes of an image") from error

    def end_of_input(self) -> None:
        """Nothing was awaited."""

    def release(self) -> None:
        """An image holds no memory of a pool."""
