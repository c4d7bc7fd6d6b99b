"""One bidirectional call on an asyncio channel: writing never waits, reading does."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import grpc
import grpc.aio

from monopath._messages import AnyRequest
from monopath._reading import Received
from monopath._writing import WritingSide

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable

__all__ = ["AsyncCall", "StartAsyncCall"]


class _StreamStreamCall(Protocol):
    """What is used of gRPC's call object."""

    def __aiter__(self) -> AsyncIterator[Received]: ...

    def write(self, request: AnyRequest) -> Coroutine[Any, Any, None]: ...

    def done_writing(self) -> Coroutine[Any, Any, None]: ...

    def cancel(self) -> bool: ...


StartAsyncCall: TypeAlias = "Callable[..., _StreamStreamCall]"
"""Starts the call, given `timeout` in seconds."""


class AsyncCall(WritingSide):
    """A call whose requests are written by a task of its own, so that writing and reading go on at the same time."""

    def __init__(self, start: StartAsyncCall, *, timeout_seconds: float | None) -> None:
        """Start the call. Needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._anytime: deque[Iterable[AnyRequest]] = deque()
        """On their way to the loop: its queue is for its own thread only."""
        self._outbox: asyncio.Queue[Iterable[AnyRequest] | None] = asyncio.Queue()
        super().__init__(self._outbox.put_nowait)
        self._call = start(timeout=timeout_seconds)
        self._responses = aiter(self._call)
        self._writing = asyncio.create_task(self._write_all())

    async def read(self) -> Received | None:
        """Wait for a response. None at the end with the status OK. Raises grpc.RpcError at any other end.

        gRPC ends the whole call where a task is cancelled in here.
        """
        return await anext(self._responses, None)

    def write_anytime(self, requests: Iterable[AnyRequest]) -> bool:
        if self._half_closed:
            return False
        self._anytime.append(requests)
        try:
            self._loop.call_soon_threadsafe(self._write_anytimes)
        except RuntimeError:
            return False  # the loop is closed, and the stream with it
        return True

    def half_close(self, *, drop_unsent: bool = False) -> None:
        self._write_anytimes()
        super().half_close(drop_unsent=drop_unsent)

    def cancel(self) -> None:
        """End the call now."""
        self._call.cancel()
        self.half_close(drop_unsent=True)

    async def close(self) -> None:
        """End the call now, and wait until its writing task has ended."""
        self.cancel()
        self._writing.cancel()
        await asyncio.wait((self._writing,))

    def _write_anytimes(self) -> None:
        while self._anytime:
            self.write(self._anytime.popleft())

    async def _write_all(self) -> None:
        # A call that ended is told to the reader, with its true status; here it only means that there is no more to do.
        with contextlib.suppress(grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            while (requests := await self._outbox.get()) is not None:
                for request in requests:
                    if self._stopped:
                        break
                    if not await _Write(self._call.write(request)):
                        return
            await self._call.done_writing()


class _Write:
    """Awaits a write, and hides from gRPC's own code that it failed. The value says whether it succeeded.

    `grpc.aio` answers a failed write by replacing the call's status with INTERNAL, "Internal error from Core", though
    the true one is on its way (grpc#36066: half of the streams and more that a server ends early lose their reason). So
    the coroutine is driven by hand, and closed where the operation that it waits for has failed; the reader then gets
    the true status.
    """

    def __init__(self, writing: Coroutine[Any, Any, None]) -> None:
        self._writing = writing

    def __await__(self) -> Generator[Any, Any, bool]:
        try:
            waited_for = self._writing.send(None)
            while True:
                try:
                    yield waited_for
                except grpc.aio.BaseError:
                    self._writing.close()
                    return False
                except BaseException as error:
                    waited_for = self._writing.throw(error)
                else:
                    waited_for = self._writing.send(None)
        except StopIteration:
            return True
