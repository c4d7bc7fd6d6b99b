"""One place that carries streams of the server, one after another, on an asyncio channel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic

import grpc

from monopath._async_call import AsyncCall, StartAsyncCall
from monopath._core import StreamCore
from monopath._errors import ConnectionFailed, ProtocolError
from monopath._messages import AnyRequest, InputT
from monopath._paths import PathT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["AsyncLink"]


class AsyncLink(Generic[PathT, InputT]):
    """A stream's state and its call. A task that is cancelled while it waits in here leaves both usable."""

    def __init__(self, core: StreamCore[PathT, InputT], start: StartAsyncCall) -> None:
        self.core = core
        self._start = start
        self._call: AsyncCall | None = None
        self._reading: asyncio.Task[None] | None = None

    def sibling(self) -> AsyncLink[PathT, InputT]:
        """Return one more link of the same kind."""
        return AsyncLink(self.core.sibling(), self._start)

    async def open(self) -> None:
        """Begin a stream and wait for its `ready`; where the server asks to move before that, begin another one."""
        opened = False
        while not opened:
            config = self.core.begin_stream()
            if self._call is not None:
                await self._call.close()
            self._call = AsyncCall(self._start, timeout_seconds=self.core.timeout_seconds())
            self.core.attach(self._call.write_anytime)
            self._call.write((config,))
            await self.advance(self.core.has_opened)
            opened = self.core.check_opened()
            if not opened:
                await self.advance(self.core.has_ended)

    def write(self, requests: Iterable[AnyRequest]) -> None:
        """Send requests, if there is a stream. Never waits."""
        if self._call is not None:
            self._call.write(requests)

    def half_close(self) -> None:
        """Tell the server that nothing more comes."""
        self.core.half_closed = True
        if self._call is not None:
            self._call.half_close()

    async def abort(self) -> None:
        """End the stream now, and wait until nothing of it is left; another one may be opened."""
        if self._call is not None:
            await self._call.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def close(self) -> None:
        """End the stream now, for good. Harmless where it has ended."""
        self.core.close()
        await self.abort()

    async def advance(self, satisfied: Callable[[], bool]) -> None:
        """Read until `satisfied`. No task that waits reads itself: cancelling one leaves the call alone."""
        while not satisfied():
            if self._reading is None:
                self.core.check_readable()
                self._reading = asyncio.create_task(self._read_one())
            await asyncio.wait((self._reading,))

    async def finish(self) -> None:
        """Half-close, and wait for the stream's end."""
        self.half_close()
        await self.advance(self.core.has_ended)

    async def finish_within(self, grace_seconds: float) -> None:
        """Finish where every item has its result. Raises ProtocolError where the server does not end the stream."""
        try:
            async with asyncio.timeout(grace_seconds):
                await self.finish()
        except ConnectionFailed:
            # Every item has its result: a server that is gone by now has taken nothing with it.
            pass
        except TimeoutError:
            raise ProtocolError(f"Expected the stream's end within {grace_seconds} s, got none") from None

    async def _read_one(self) -> None:
        """Read one response into the core, which keeps what the stream ended with."""
        assert self._call is not None
        call = self._call
        try:
            response = await call.read()
        except grpc.RpcError as error:
            self.core.receive_status(error)
        else:
            if response is None:
                self.core.receive_end()
            else:
                call.obey(self.core.receive(response))
        finally:
            self._reading = None
