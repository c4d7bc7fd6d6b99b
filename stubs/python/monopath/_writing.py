"""The writing side of a call, which the sync and the asyncio one have in common: requests go through a queue."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from monopath._opening import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from monopath._messages import AnyRequest

__all__ = ["WritingSide"]


class WritingSide(abc.ABC):
    """Puts requests into a queue that gRPC's side of the call empties. No method waits."""

    def __init__(self, put: Callable[[Iterable[AnyRequest] | None], None]) -> None:
        """`put` appends to the queue; None stands for the half-close."""
        self._put = put
        self._stopped = False
        """What is still in the queue is not to be sent."""
        self._half_closed = False

    def write(self, requests: Iterable[AnyRequest]) -> None:
        """Put requests behind those already on their way. Without effect after `half_close`."""
        if not self._half_closed:
            self._put(requests)

    @abc.abstractmethod
    def write_anytime(self, requests: Iterable[AnyRequest]) -> bool:
        """Do the same from any thread at any moment, even from the garbage collector. Returns False if it is too late.

        Takes no lock.
        """

    def half_close(self, *, drop_unsent: bool = False) -> None:
        """Send nothing more: after what is already on its way out, or at once."""
        self._stopped = self._stopped or drop_unsent
        if not self._half_closed:
            self._half_closed = True
            self._put(None)

    def obey(self, wish: Wish) -> None:
        """Do what a received message asks of the writing side."""
        match wish:
            case Wish.NOTHING:
                pass
            case Wish.HALF_CLOSE:
                self.half_close()
            case Wish.STOP:
                self.half_close(drop_unsent=True)
            case Wish.CANCEL:
                self.cancel()

    @abc.abstractmethod
    def cancel(self) -> None:
        """End the call now."""
