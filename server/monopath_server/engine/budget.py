"""How much unfinished work one stream may have before the server stops reading it."""

from __future__ import annotations

import asyncio

__all__ = ["StreamBudget"]


class StreamBudget:
    """Counts the items of a stream that have no end yet, and their bytes. Used on the event loop only."""

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._items = 0
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def has_room(self) -> bool:
        """Another item may be read. A single item is always let in, however large."""
        return self._items == 0 or (self._items < self._max_items and self._bytes < self._max_bytes)

    async def wait_for_room(self) -> None:
        """Wait until another item may be read."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()

    def add_item(self, size_bytes: int) -> None:
        """An item came; its bytes are `size_bytes`."""
        self._items += 1
        self._bytes += size_bytes

    def add_bytes(self, size_bytes: int) -> None:
        """An item's features will have `size_bytes` bytes."""
        self._bytes += size_bytes

    def end_item(self, size_bytes: int) -> None:
        """An item ended; all that was added for it is `size_bytes`."""
        self._items -= 1
        self._bytes -= size_bytes
        self._room.set()
