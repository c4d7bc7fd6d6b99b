"""Memory that a client was told of and has not released yet. One stream's; used on the event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from monopath_server.engine.rows import Holding, Rows

__all__ = ["LeasableRows", "Leases"]


class LeasableRows(Rows, Protocol):
    """Rows that another process can read."""

    def retire(self) -> None:
        """Somebody may go on reading without a lease: the memory is not to be used for anything else, ever."""


class Leases:
    """Holds what is leased until the client releases it, the stream ends, or the lease runs out.

    Only a release says that the client has stopped reading. Whatever ends a lease otherwise retires its memory, so that
    a client that reads late still sees its own item, and never another one.
    """

    def __init__(
        self,
        timeout_seconds: float,
        on_change: Callable[[int, int], None] = lambda _count, _bytes: None,
        on_timeout: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change` is told how many leases began (1) or ended (-1), and of how many bytes; `on_timeout`, that one
        ran out."""
        self._timeout_seconds = timeout_seconds
        self._on_change = on_change
        self._on_timeout = on_timeout
        self._leases: dict[int, _Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, item_id: int, rows: LeasableRows, holding: Holding) -> None:
        """Lease an item's rows, which `holding` holds, from now on."""
        timer = asyncio.get_running_loop().call_later(self._timeout_seconds, self._time_out, item_id)
        self._leases[item_id] = _Lease(rows, holding, timer)
        self._on_change(1, rows.size_bytes)

    def release(self, item_id: int) -> None:
        """The client reads the item's rows no more. Harmless where nothing is leased."""
        lease = self._leases.pop(item_id, None)
        if lease is not None:
            lease.end()
            self._on_change(-1, -lease.rows.size_bytes)

    def close(self) -> None:
        """The stream is over. Calling it again does nothing."""
        for item_id in list(self._leases):
            self._expire(item_id)

    def _time_out(self, item_id: int) -> None:
        self._on_timeout()
        self._expire(item_id)

    def _expire(self, item_id: int) -> None:
        self._leases[item_id].rows.retire()
        self.release(item_id)


class _Lease:
    __slots__ = ("_holding", "_timer", "rows")

    def __init__(self, rows: LeasableRows, holding: Holding, timer: asyncio.TimerHandle) -> None:
        self.rows = rows
        self._holding = holding
        self._timer = timer

    def end(self) -> None:
        self._timer.cancel()
        self._holding.release()
