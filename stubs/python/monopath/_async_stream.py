"""The asyncio stream."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Generic, Self

from monopath._async_call import StartAsyncCall
from monopath._async_link import AsyncLink
from monopath._async_mapping import AsyncMapping, load_outgoing
from monopath._core import StreamCore
from monopath._mapping_core import MappingCore
from monopath._messages import AnyRequest, InputT, Outgoing
from monopath._opening import Opening, Room
from monopath._paths import PathT
from monopath._results import PlanEvent, Result
from monopath._resume import Resume

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
    from types import TracebackType

    from monopath._records import Ready, Summary
    from monopath._session import Event

__all__ = ["AsyncStream"]

CLOSE_GRACE_SECONDS = 10.0
"""How long a server may take to end a stream that was half-closed with every item answered."""


class AsyncStream(Generic[PathT, InputT]):
    """A stream of one path. Use it in an `async with` statement, which opens it and waits for `ready`.

    Leaving the statement ends the stream: in order where every item has its result, else by cancelling it. One task
    may send while another one reads; a call that is cancelled while it waits leaves the stream usable. `map` goes on
    with new streams where one is lost; `send` and `events` do not.
    """

    def __init__(self, opening: Opening[PathT, InputT], start: StartAsyncCall) -> None:
        """For `AsyncClient` to call."""
        self._core = StreamCore(opening)
        self._link = AsyncLink(self._core, start)
        self._mappings: weakref.WeakSet[AsyncMapping[PathT, InputT]] = weakref.WeakSet()

    async def __aenter__(self) -> Self:
        try:
            await self._link.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if exc_type is None and self._core.needs_finish():
                await self._link.finish_within(CLOSE_GRACE_SECONDS)
        finally:
            await self.close()

    @property
    def ready(self) -> Ready:
        """The config that holds, its digest and warnings, and what the server takes."""
        return self._core.ready

    @property
    def summary(self) -> Summary | None:
        """What the streams that came to their good end came to. None before `finish`, or the end of `async with`."""
        return self._core.summary

    async def map(
        self,
        images: Iterable[InputT] | AsyncIterable[InputT],
        *,
        on_plan: Callable[[PlanEvent], None] | None = None,
        streams: int = 1,
        resume: Resume | None = None,
    ) -> AsyncGenerator[Result[PathT], None]:
        """Send images and yield exactly one result for each: features, or the item's error as a value.

        Images are taken lazily, no more at a time than the server takes, and results are read in between. They come in
        the stream's order. Leaving the loop early cancels the items that have no result yet; the stream stays usable.
        `on_plan` is called with one plan of each item, as it comes.

        A server that goes away is no end: items without a result go to a new stream, wherever the client's target leads
        to, under the same ids; `resume` says how often. Their bytes are kept until then. With several `streams`, each
        carries a few items at a time (8, or `max_unfinished_items`), so that a slow replica takes fewer.

        Raises TypeError for what is no image, OSError for a file that cannot be read, RuntimeError where items of
        `send` have no end yet, StreamMoved where a new stream has another config, and a `MonopathError` where no
        stream can go on.
        """
        if streams < 1:
            raise ValueError(f"Expected at least 1 stream, got {streams}")
        self._core.check_mappable()
        links = [self._link, *(self._link.sibling() for _ in range(streams - 1))]
        core = MappingCore([link.core for link in links], resume or Resume())
        mapping = AsyncMapping(links, core, close_grace_seconds=CLOSE_GRACE_SECONDS)
        self._mappings.add(mapping)
        async with contextlib.aclosing(mapping.run(images, on_plan)) as results:
            async for result in results:
                yield result
                # What the caller has dropped is not to be held here while the next one is waited for.
                del result

    async def send(self, image: InputT) -> int:
        """Send one item and return its id. Waits for room; what is received meanwhile is kept for `events`.

        The item is lost with its stream. Raises as `map` does.
        """
        outgoing = await load_outgoing(self._core, image)
        while (item_id := await self._send_if_room(outgoing)) is None:
            await self._link.advance(lambda: self._core.room(outgoing) is not Room.AFTER_READING)
        return item_id

    async def events(self) -> AsyncIterator[Event[PathT]]:
        """Yield plans and results as they come, until every item sent so far has ended."""
        while (event := await self._next_event()) is not None:
            yield event
            # What the caller has dropped is not to be held here while the next one is waited for.
            del event

    async def cancel(self, item_id: int) -> bool:
        """Ask the server to drop an item; it still ends exactly once. Returns False where it is too late to ask.

        Raises ValueError for an id that `send` never returned.
        """
        return self._write(self._core.cancellation(item_id))

    async def release(self, item_id: int) -> bool:
        """Give leased memory of an item back, as its result's `release` does. Features that came inline lease none.

        Returns False where nothing is leased, or it is too late to tell. Raises ValueError for an id that `send` never
        returned.
        """
        return self._core.release(item_id)

    async def half_close(self) -> None:
        """Tell the server that no more items come. Those that were sent are still answered."""
        self._link.half_close()

    async def finish(self) -> Summary | None:
        """Half-close, wait for the stream's end, and return what it came to. Results that come meanwhile are kept."""
        await self._link.finish()
        return self._core.summary

    async def close(self) -> None:
        """End the stream now, whatever is on its way. Harmless where it has ended."""
        await self._link.close()
        # Even where the loop over `map` was left and nobody closed its iterator.
        for mapping in list(self._mappings):
            await mapping.close()

    def _lend(self) -> AsyncLink[PathT, InputT]:
        """Return a link that opens streams as this one says; for a fleet, whose mapping is ended with this one."""
        self._core.check_not_closed()
        return self._link.sibling()

    async def _send_if_room(self, outgoing: Outgoing) -> int | None:
        match self._core.room(outgoing):
            case Room.YES:
                item_id = self._core.take_id()
                self._link.write(self._core.begin_item(outgoing, item_id))
                return item_id
            case Room.AFTER_READING:
                return None
            case Room.AFTER_MOVING:
                await self._link.advance(self._core.has_ended)
                await self._link.open()
                return None

    async def _next_event(self) -> Event[PathT] | None:
        """Wait for an event. None where every item has ended, so that none will come."""
        await self._link.advance(self._core.has_news)
        return self._core.events.popleft() if self._core.events else None

    def _write(self, request: AnyRequest | None) -> bool:
        if request is not None:
            self._link.write((request,))
        return request is not None
