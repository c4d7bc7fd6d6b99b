"""The asyncio stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import grpc

from monopath._async_call import AsyncCall, StartAsyncCall
from monopath._core import Opening, Room, StreamCore
from monopath._errors import ConnectionFailed, ProtocolError
from monopath._images import is_file
from monopath._messages import AnyRequest, InputT, Outgoing
from monopath._paths import PathT
from monopath._results import PlanEvent, Result

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
    from types import TracebackType

    from monopath._records import Ready, Summary
    from monopath._session import Event

__all__ = ["AsyncStream"]

_ValueT = TypeVar("_ValueT")

CLOSE_GRACE_SECONDS = 10.0
"""How long a server may take to end a stream that was half-closed with every item answered."""


class AsyncStream(Generic[PathT, InputT]):
    """A stream of one path. Use it in an `async with` statement, which opens it and waits for `ready`.

    Leaving the statement ends the stream: in order where every item has its result, else by cancelling it. One task
    may send while another one reads; a call that is cancelled while it waits leaves the stream usable.
    """

    def __init__(self, opening: Opening[PathT, InputT], start: StartAsyncCall) -> None:
        """For `AsyncClient` to call."""
        self._core = StreamCore(opening)
        self._start = start
        self._call: AsyncCall | None = None
        self._reading: asyncio.Task[None] | None = None
        self._mapping: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if exc_type is None and self._core.needs_finish():
                await self._finish_within_grace()
        finally:
            await self.close()

    @property
    def ready(self) -> Ready:
        """The config that holds, its digest and warnings, and what the server takes."""
        return self._core.ready

    @property
    def summary(self) -> Summary | None:
        """What the stream came to. None before `finish`, or before the end of the `async with` statement."""
        return self._core.summary

    async def map(
        self, images: Iterable[InputT] | AsyncIterable[InputT], *, on_plan: Callable[[PlanEvent], None] | None = None
    ) -> AsyncGenerator[Result[PathT], None]:
        """Send images and yield exactly one result for each: features, or the item's error as a value.

        Images are taken lazily, no more at a time than the server takes, and results are read in between. They come in
        the stream's order. Leaving the loop early cancels the items that have no result yet; the stream stays usable.
        `on_plan` is called with each plan as it comes.

        Raises TypeError for what is no image, OSError for a file that cannot be read, RuntimeError where items of
        `send` have no end yet, and a `MonopathError` where the stream ends.
        """
        self._core.check_mappable()
        source = _each(images)
        taking: asyncio.Task[Outgoing | None] | None = None
        news: asyncio.Task[None] | None = None
        next_item: Outgoing | None = None
        exhausted = False
        unanswered_ids: set[int] = set()
        try:
            while True:
                if next_item is not None:
                    item_id = await self._send_if_room(next_item)
                    if item_id is not None:
                        unanswered_ids.add(item_id)
                        next_item = None
                if next_item is None and not exhausted and taking is None:
                    taking = self._map_task(self._take(source))
                if news is None and (unanswered_ids or next_item is not None):
                    news = self._map_task(self._advance(self._core.has_news))
                waited_for = [task for task in (taking, news) if task is not None]
                if not waited_for:
                    return
                # Both at once: a slow source must not keep back results that are there already.
                await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
                if taking is not None and taking.done():
                    taken, taking = taking, None
                    next_item = taken.result()
                    exhausted = next_item is None
                if news is not None and news.done():
                    told, news = news, None
                    told.result()
                    event = self._core.events.popleft() if self._core.events else None
                    if isinstance(event, PlanEvent):
                        if on_plan is not None:
                            on_plan(event)
                    elif event is not None:
                        unanswered_ids.discard(event.id)
                        yield event
        finally:
            if unanswered_ids:
                self._abandon(unanswered_ids)
            await _end([task for task in (taking, news) if task is not None])
            await source.aclose()

    async def send(self, image: InputT) -> int:
        """Send one item and return its id. Waits for room; what is received meanwhile is kept for `events`.

        Raises as `map` does.
        """
        outgoing = await self._outgoing(image)
        while (item_id := await self._send_if_room(outgoing)) is None:
            await self._advance(lambda: self._core.room(outgoing) is not Room.AFTER_READING)
        return item_id

    async def events(self) -> AsyncIterator[Event[PathT]]:
        """Yield plans and results as they come, until every item sent so far has ended."""
        while (event := await self._next_event()) is not None:
            yield event

    async def cancel(self, item_id: int) -> bool:
        """Ask the server to drop an item; it still ends exactly once. Returns False where it is too late to ask.

        Raises ValueError for an id that `send` never returned.
        """
        return self._write(self._core.cancellation(item_id))

    async def release(self, item_id: int) -> bool:
        """Give leased memory of an item back. Features that came inline lease none.

        Returns False where it is too late to tell. Raises ValueError for an id that `send` never returned.
        """
        return self._write(self._core.release(item_id))

    async def half_close(self) -> None:
        """Tell the server that no more items come. Those that were sent are still answered."""
        self._core.half_closed = True
        if self._call is not None:
            self._call.half_close()

    async def finish(self) -> Summary | None:
        """Half-close, wait for the stream's end, and return what it came to. Results that come meanwhile are kept."""
        await self.half_close()
        await self._advance(self._core.has_ended)
        return self._core.summary

    async def close(self) -> None:
        """End the stream now, whatever is on its way. Harmless where it has ended."""
        self._core.close()
        if self._call is not None:
            await self._call.close()
        await _end([*self._mapping, *([] if self._reading is None else [self._reading])])

    async def _open(self) -> None:
        opened = False
        while not opened:
            config = self._core.begin_stream()
            if self._call is not None:
                await self._call.close()
            self._call = AsyncCall(self._start)
            self._call.write((config,))
            await self._advance(self._core.has_opened)
            opened = self._core.check_opened()
            if not opened:
                await self._advance(self._core.has_ended)

    async def _outgoing(self, image: InputT) -> Outgoing:
        load = self._core.adapter.load
        return self._core.outgoing(await asyncio.to_thread(load, image) if is_file(image) else load(image))

    async def _take(self, source: AsyncIterator[InputT]) -> Outgoing | None:
        async for image in source:
            return await self._outgoing(image)
        return None

    async def _send_if_room(self, outgoing: Outgoing) -> int | None:
        match self._core.room(outgoing):
            case Room.YES:
                assert self._call is not None
                item_id, requests = self._core.begin_item(outgoing)
                self._call.write(requests)
                return item_id
            case Room.AFTER_READING:
                return None
            case Room.AFTER_MOVING:
                await self._advance(self._core.has_ended)
                await self._open()
                return None

    async def _next_event(self) -> Event[PathT] | None:
        """Wait for an event. None where every item has ended, so that none will come."""
        await self._advance(self._core.has_news)
        return self._core.events.popleft() if self._core.events else None

    def _abandon(self, item_ids: Iterable[int]) -> None:
        cancellations = self._core.abandon(item_ids)
        if self._call is not None:
            self._call.write(cancellations)

    def _write(self, request: AnyRequest | None) -> bool:
        if request is None or self._call is None:
            return False
        self._call.write((request,))
        return True

    def _map_task(self, coroutine: Coroutine[Any, Any, _ValueT]) -> asyncio.Task[_ValueT]:
        """Start a task that `close` ends, even where the loop over `map` was left and nobody closed its iterator."""
        task = asyncio.create_task(coroutine)
        self._mapping.add(task)
        task.add_done_callback(self._mapping.discard)
        return task

    async def _advance(self, satisfied: Callable[[], bool]) -> None:
        """Read until `satisfied`. No task that waits reads itself: cancelling one leaves the call alone."""
        while not satisfied():
            if self._reading is None:
                self._core.check_readable()
                self._reading = asyncio.create_task(self._read_one())
            await asyncio.wait((self._reading,))

    async def _read_one(self) -> None:
        """Read one response into the core, which keeps what the stream ended with."""
        assert self._call is not None
        call = self._call
        try:
            response = await call.read()
        except grpc.RpcError as error:
            self._core.receive_status(error)
        else:
            if response is None:
                self._core.receive_end()
            else:
                call.obey(self._core.receive(response))
        finally:
            self._reading = None

    async def _finish_within_grace(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_GRACE_SECONDS):
                await self.finish()
        except ConnectionFailed:
            # Every item has its result: a server that is gone by now has taken nothing with it.
            pass
        except TimeoutError:
            raise ProtocolError(f"Expected the stream's end within {CLOSE_GRACE_SECONDS} s, got none") from None


async def _each(images: Iterable[_ValueT] | AsyncIterable[_ValueT]) -> AsyncGenerator[_ValueT, None]:
    if isinstance(images, AsyncIterable):
        async for image in images:
            yield image
    else:
        for image in images:
            yield image


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
