"""One bidirectional call on a sync channel: writing never blocks, reading does."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Protocol, TypeAlias

from monopath._messages import AnyRequest
from monopath._reading import Received
from monopath._writing import WritingSide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["StartSyncCall", "SyncCall"]


class _CallIterator(Protocol):
    """What is used of gRPC's call object."""

    def __next__(self) -> Received: ...

    def cancel(self) -> object: ...


StartSyncCall: TypeAlias = "Callable[..., _CallIterator]"
"""Starts the call, given the iterator of its requests, and `timeout` in seconds."""


class SyncCall(WritingSide):
    """A call whose requests are written by the thread that gRPC keeps for its request iterator.

    Writing and reading thus go on at the same time: a server that stops reading until its replies are read, as flow
    control makes it, never blocks the caller in a write.
    """

    def __init__(self, start: StartSyncCall, *, timeout_seconds: float | None) -> None:
        self._outbox: queue.SimpleQueue[Iterable[AnyRequest] | None] = queue.SimpleQueue()
        super().__init__(self._outbox.put)
        self._call = start(self._requests(), timeout=timeout_seconds)

    def read(self) -> Received | None:
        """Wait for a response. None at the end with the status OK. Raises grpc.RpcError at any other end."""
        try:
            return next(self._call)
        except StopIteration:
            return None

    def write_anytime(self, requests: Iterable[AnyRequest]) -> bool:
        # This queue's `put` is reentrant. What comes behind the half-close is never sent.
        self.write(requests)
        return not self._half_closed

    def cancel(self) -> None:
        """End the call now, and the writing thread with it."""
        self._call.cancel()
        self.half_close(drop_unsent=True)

    def _requests(self) -> Iterator[AnyRequest]:
        while (requests := self._outbox.get()) is not None:
            for request in requests:
                if self._stopped:
                    return
                yield request
