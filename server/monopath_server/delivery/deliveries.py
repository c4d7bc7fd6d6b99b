"""How results travel: one object for each stream, which says where rows are made and what is sent of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from monopath_server.delivery.leases import LeasableRows, Leases
from monopath_server.delivery.parts import DevicePart, Part, SegmentPart, TransportKind, chunks
from monopath_server.delivery.segments import SegmentPool, SegmentRows
from monopath_server.engine.device_rows import Place
from monopath_server.engine.items import CacheOutcome, Features
from monopath_server.engine.rows import Holding, HostPlace, HostRows, Rows
from monopath_server.engine.workers import CancelToken, Workers

__all__ = ["Delivery", "InlineDelivery", "LeasingDelivery", "SegmentDelivery"]


_MADE_FOR_OTHERS = frozenset({CacheOutcome.HIT, CacheOutcome.JOINED})
"""Whatever was made for this stream had its chance of shared memory."""


class Delivery(Protocol):
    """One stream's. Used on the event loop only."""

    transport: TransportKind
    """What the client asked for."""

    @property
    def place(self) -> Place:
        """Where the stream's features are best made."""

    @property
    def fallback_count(self) -> int:
        """Items that had to travel in chunks though the client asked for another way."""

    async def prepare(self, features: Features) -> Features:
        """Bring features that were made elsewhere to where they have to be. Owns what it is given."""

    def parts(self, item_id: int, holding: Holding, /) -> Iterator[Part]:
        """What is sent of an item's rows. The caller keeps its own holding until the last part is written."""

    def release(self, item_id: int, /) -> None:
        """The client reads the item's memory no more."""

    def close(self) -> None:
        """The stream is over, in whatever way. Calling it again does nothing."""


class InlineDelivery:
    """In the response messages."""

    transport = TransportKind.INLINE
    fallback_count = 0

    def __init__(self, place: HostPlace, chunk_bytes: int) -> None:
        self.place = place
        self._chunk_bytes = chunk_bytes

    async def prepare(self, features: Features) -> Features:
        return features

    def parts(self, _item_id: int, holding: Holding, /) -> Iterator[Part]:
        yield from chunks(_host_rows(holding), self._chunk_bytes)

    def release(self, _item_id: int, /) -> None:
        """Nothing is leased."""

    def close(self) -> None:
        """Nothing is leased."""


class HandledRows(LeasableRows, Protocol):
    """Rows that a client is told of by a handle."""

    @property
    def part(self) -> SegmentPart | DevicePart:
        """The handle."""


class LeasingDelivery:
    """By handle, and in chunks where none of the memory that handles lead to was left."""

    transport: TransportKind

    def __init__(self, place: Place, handled: type[HandledRows], leases: Leases, *, chunk_bytes: int) -> None:
        """`handled` are the rows that have a handle."""
        self.place = place
        self.fallback_count = 0
        self._handled = handled
        self._leases = leases
        self._chunk_bytes = chunk_bytes

    async def prepare(self, features: Features) -> Features:
        return features

    def parts(self, item_id: int, holding: Holding, /) -> Iterator[Part]:
        rows = holding.rows
        if isinstance(rows, self._handled):
            self._leases.add(item_id, rows, holding.share())
            yield rows.part
            return
        self.fallback_count += 1
        yield from chunks(_host_rows(holding), self._chunk_bytes)

    def release(self, item_id: int, /) -> None:
        self._leases.release(item_id)

    def close(self) -> None:
        self._leases.close()


class SegmentDelivery(LeasingDelivery):
    """In shared memory, and in chunks where none is left."""

    transport = TransportKind.SHARED_MEMORY

    def __init__(
        self,
        pool: SegmentPool,
        fallback: HostPlace,
        workers: Workers,
        leases: Leases,
        *,
        chunk_bytes: int,
        on_moved: Callable[[Rows, Holding], None],
        on_close: Callable[[], None],
    ) -> None:
        """`on_moved` is told that rows were copied into a segment, so that it is not done for every item again."""
        super().__init__(pool.place(fallback), SegmentRows, leases, chunk_bytes=chunk_bytes)
        self._pool = pool
        self._workers = workers
        self._on_moved = on_moved
        self._on_close = on_close

    async def prepare(self, features: Features) -> Features:
        """Copy rows that are in the server's own memory: a cached result of a stream that is served inline."""
        if isinstance(features.holding.rows, SegmentRows) or features.cache not in _MADE_FOR_OTHERS:
            return features
        try:
            source = _host_rows(features.holding)
            moved = await self._workers.run(
                lambda: self._copy(source), CancelToken(id(self)), _release, cost=source.size_bytes
            )
        except BaseException:
            features.holding.release()
            raise
        if moved is None:
            return features
        holding = Holding(moved)
        self._on_moved(source, holding)
        features.holding.release()
        return replace(features, holding=holding)

    def close(self) -> None:
        super().close()
        self._on_close()

    def _copy(self, rows: HostRows) -> SegmentRows | None:
        copy = self._pool.take(rows.size_bytes)
        if copy is not None:
            np.copyto(copy.array, rows.array)
        return copy


def _release(rows: SegmentRows | None) -> None:
    if rows is not None:
        rows.release()


def _host_rows(holding: Holding) -> HostRows:
    rows = holding.rows
    if not isinstance(rows, HostRows):
        raise TypeError(f"Expected rows that the CPU can read, got {type(rows).__name__}")
    return rows
