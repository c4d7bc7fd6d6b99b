"""Memory of the server's that this client reads, and how it gives it back.

A lease may end in any thread and at any moment: the garbage collector ends those of arrays that nobody holds any more,
inside gRPC or with locks held if it so happens. So nothing here takes a lock, waits, or makes a message by then.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from monopath._messages import AnyRequest

__all__ = ["CloseMemory", "Lease", "Leases", "WriteAnytime"]

WriteAnytime: TypeAlias = "Callable[[Iterable[AnyRequest]], bool]"
"""Sends requests from any thread at any moment, and returns False where it is too late for them."""

CloseMemory: TypeAlias = "Callable[[Callable[[], None]], None]"
"""Closes memory soon, and calls what it is given then. May be called from any thread at any moment; returns at once."""


class Lease:
    """One item's leased memory."""

    __slots__ = ("_close", "_item_id", "_leases", "released")

    def __init__(self, leases: Leases, item_id: int) -> None:
        """For `Leases.begin` to call."""
        self._leases = leases
        self._item_id = item_id
        self._close: CloseMemory | None = None
        self.released = False
        """The server may use the memory for something else."""

    def release(self) -> bool:
        """Give the memory back. Returns whether the server is told: not where the stream is over, or a second time."""
        self.released = True
        if self._close is None:
            return self._leases._release(self._item_id)
        is_told = self._leases.is_open(self._item_id)
        self._close(self._release_closed)
        return is_told

    def ends_with(self, memory: object, close: CloseMemory | None = None) -> None:
        """Release when `memory` is garbage, at the latest. With `close`, the server is told when that is done."""
        self._close = close
        # The interpreter's end ends the stream as well.
        weakref.finalize(memory, self.release).atexit = False

    def _release_closed(self) -> None:
        self._leases._release(self._item_id)


class Leases:
    """The leases of one stream. Their releases are sent on it, and on no later one, where ids mean other items."""

    def __init__(self) -> None:
        self.send: WriteAnytime | None = None
        """Set when the stream begins; None again when it is over, which gives all memory back by itself."""
        self._open: dict[int, tuple[Lease, AnyRequest]] = {}
        """By the caller's id. Taking an entry out is one step, so that only one of several threads sends it."""

    def begin(self, item_id: int, release: AnyRequest) -> Lease:
        """Return the lease of an item's memory, which `release` gives back."""
        lease = Lease(self, item_id)
        self._open[item_id] = (lease, release)
        return lease

    def release(self, item_id: int) -> bool:
        """Release an item's memory. Returns False where nothing is leased, or it is too late to tell."""
        lease, _ = self._open.get(item_id, (None, None))
        return lease is not None and lease.release()

    def is_open(self, item_id: int) -> bool:
        """Return whether an item's memory is leased, and can be given back on the stream."""
        return item_id in self._open and self.send is not None

    def end(self) -> None:
        """The stream is over. Calling it again does nothing."""
        self.send = None
        self._open.clear()

    def _release(self, item_id: int) -> bool:
        _, request = self._open.pop(item_id, (None, None))
        send = self.send
        return request is not None and send is not None and send((request,))
