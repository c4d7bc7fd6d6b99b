"""How much unfinished work one stream, one client, and the whole process may hold."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from monopath_server.faults import ItemFault, ItemReason

__all__ = ["Budget", "Charge", "Load"]


@dataclass(frozen=True, slots=True)
class Load:
    """An amount of unfinished work, or a limit of it."""

    items: int = 0
    bytes: int = 0
    """Bytes of images and features that are held until their items end."""
    pixels: int = 0
    """Pixels of images that are decoded, or will be."""

    def __add__(self, other: Load) -> Load:
        return Load(self.items + other.items, self.bytes + other.bytes, self.pixels + other.pixels)

    def __sub__(self, other: Load) -> Load:
        return Load(self.items - other.items, self.bytes - other.bytes, self.pixels - other.pixels)


class Budget:
    """Counts what is held against a limit. Used on the event loop only."""

    def __init__(self, limit: Load, scope: str = "in this server") -> None:
        """`scope` says in an error's text whose work it is."""
        self._limit = limit
        self._scope = scope
        self.used = Load()
        self._room = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Another item may come. A single item is always let in, however large."""
        return self.used.items == 0 or (
            self.used.items < self._limit.items
            and self.used.bytes < self._limit.bytes
            and self.used.pixels < self._limit.pixels
        )

    def check(self, load: Load) -> None:
        """Whether an item of the budget may grow by `load`; one that has the budget to itself always may.

        Raises:
            ItemFault: OVERLOADED, with both numbers.
        """
        if self.used.items <= 1:
            return
        after = self.used + load
        for name, needed, limit in (
            ("items", after.items, self._limit.items),
            ("bytes", after.bytes, self._limit.bytes),
            ("pixels", after.pixels, self._limit.pixels),
        ):
            if needed > limit:
                raise ItemFault(
                    ItemReason.OVERLOADED,
                    f"Expected at most {limit} {name} of unfinished items {self._scope}, got {needed} with this one",
                )

    async def wait_for_room(self) -> None:
        """Wait until another item may come."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()

    def add(self, load: Load) -> None:
        """Count work that is held from now on."""
        self.used += load

    def remove(self, load: Load) -> None:
        """Count work that is held no longer."""
        self.used -= load
        self._room.set()


class Charge:
    """All that one item holds, in its stream's budget and in those that streams share. Given back once, on every way
    out."""

    def __init__(self, stream: Budget, shared: tuple[Budget, ...]) -> None:
        self._shared = shared
        self._budgets = (stream, *shared)
        self._load = Load(items=1)
        self._is_released = False
        for budget in self._budgets:
            budget.add(self._load)

    def grow(self, load: Load) -> None:
        """Hold more; after `release`, when work goes on for others, nothing.

        Raises:
            ItemFault: OVERLOADED where a shared budget has no room. A stream without room is read no further instead.
        """
        if self._is_released:
            return
        for budget in self._shared:
            budget.check(load)
        self._load += load
        for budget in self._budgets:
            budget.add(load)

    def release(self) -> None:
        """Hold nothing any more. Calling it again does nothing."""
        load, self._load = self._load, Load()
        self._is_released = True
        for budget in self._budgets:
            budget.remove(load)
