"""`map` of the asyncio stream: items to one or several streams, and one result for each, whatever becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from monopath._async_link import AsyncLink
from monopath._errors import CallError, MonopathError, StreamClosed
from monopath._images import is_file
from monopath._mapping_core import MappingCore
from monopath._messages import InputT, Outgoing
from monopath._paths import PathT
from monopath._results import PlanEvent, Result

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence

    from monopath._core import StreamCore
    from monopath._session import Event

__all__ = ["AsyncMapping", "load_outgoing"]

_ValueT = TypeVar("_ValueT")


class AsyncMapping(Generic[PathT, InputT]):
    """One `map`. Each of its streams is read by a task, which stops where the caller does not take what is there."""

    def __init__(
        self,
        links: Sequence[AsyncLink[PathT, InputT]],
        core: MappingCore[PathT, InputT],
        *,
        close_grace_seconds: float,
        keeps_first: bool = True,
    ) -> None:
        """`links` carry the core's lanes, and live as long as the mapping.

        With `keeps_first` the first is the caller's stream, and stays open.
        """
        self._links = links
        self._own_links = links[1:] if keeps_first else links
        self._core = core
        self._close_grace_seconds = close_grace_seconds
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        """What no new stream can mend."""

    async def run(
        self, images: Iterable[InputT] | AsyncIterable[InputT], on_plan: Callable[[PlanEvent], None] | None
    ) -> AsyncGenerator[Result[PathT], None]:
        """Yield the results."""
        source = _each(images)
        taking: asyncio.Task[Outgoing | None] | None = None
        complete = False
        try:
            for lane in range(len(self._links)):
                self._task(self._serve(lane))
            while True:
                if taking is None and self._wants_item():
                    taking = self._task(self._take(source))
                if taking is not None and taking.done() and not taking.cancelled():
                    taken, taking = taking.result(), None
                    self._core.add(taken)
                    self._send()
                    # Lanes without a stream wait for work to open one for.
                    self._notify()
                    continue
                event = self._take_event()
                if isinstance(event, PlanEvent):
                    if on_plan is not None:
                        on_plan(event)
                elif event is not None:
                    yield event
                    # What the caller has dropped is not to be held here while there is nothing new.
                    del event
                elif self._core.done:
                    break
                else:
                    await self._wait(self._core.seconds_to_due())
                    self._send()
            complete = True
        finally:
            await self._end_tasks()
            if complete:
                await self._finish_own()
            await self._leave()
            await source.aclose()

    async def close(self) -> None:
        """End it where it stands. Harmless when repeated, or when it has come to its end."""
        self._error = self._error or StreamClosed("Expected an open stream, got one that was closed")
        self._notify()
        await self._end_tasks()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _wants_item(self) -> bool:
        return self._error is None and self._core.wants_item()

    def _take_event(self) -> Event[PathT] | None:
        if self._core.events:
            self._notify()
            return self._core.events.popleft()
        if self._error is not None:
            raise self._error
        return None

    async def _take(self, source: AsyncIterator[InputT]) -> Outgoing | None:
        async for image in source:
            return await load_outgoing(self._core.leader, image)
        return None

    def _send(self) -> None:
        """Send what there is room for."""
        for lane, requests in self._core.sendable():
            self._links[lane].write(requests)
            self._notify()

    async def _serve(self, lane: int) -> None:
        """Carry streams, one after another, until the mapping ends its tasks."""
        try:
            while True:
                await self._step(lane)
        except Exception as error:
            self._error = self._error or error
            self._notify()

    async def _step(self, lane: int) -> None:
        """Wait for the next thing that a lane has to do, and do it."""
        link, core = self._links[lane], self._links[lane].core
        # A stream is read even when it waits for nothing: a server that stops wants to be heard.
        wait_seconds = 0.0 if not core.ended else self._core.seconds_to_opening(lane)
        if not core.ended and self._core.is_ahead:
            wait_seconds = None
        if wait_seconds != 0:
            await self._wait(wait_seconds)
            return
        try:
            if core.ended:
                await link.open()
                self._core.opened(lane)
            else:
                await link.advance(core.news_after_now())
        except MonopathError as error:
            self._core.lose(lane, error)
        self._core.collect(lane)
        self._send()
        self._notify()

    async def _finish_own(self) -> None:
        """Bring the mapping's own streams to their good end. One that is lost by now has taken nothing with it."""
        for link in self._own_links:
            link.half_close()
        opened = [link for link in self._own_links if link.core.opened and not link.core.ended]
        finishing = (link.finish_within(self._close_grace_seconds) for link in opened)
        ends = await asyncio.gather(*finishing, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, CallError):
                raise end

    async def _leave(self) -> None:
        """Leave the caller's stream open, with what is still to come of it cancelled, and nothing else behind."""
        first = self._links[0]
        for link in self._own_links:
            await link.close()
            if link is not first:
                first.core.add_summary(link.core.summary)
        if first in self._own_links:
            return
        first.write(first.core.abandon(self._core.unfinished_ids))
        if not first.core.opened and not first.core.ended and not first.core.closed:
            # It was left while it was being opened again.
            await first.abort()
            first.core.forget()

    def _task(self, coroutine: Coroutine[Any, Any, _ValueT]) -> asyncio.Task[_ValueT]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._end_of_task)
        return task

    def _end_of_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._notify()

    def _notify(self) -> None:
        """Wake whoever waits: a wait is for the next change, whichever it is."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self, timeout_seconds: float | None) -> None:
        changed = self._changed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await changed.wait()


async def load_outgoing(core: StreamCore[PathT, InputT], image: InputT) -> Outgoing:
    """Make an input ready to be sent; a file is read in a thread."""
    load = core.adapter.load
    return core.outgoing(await asyncio.to_thread(load, image) if is_file(image) else load(image))


async def _each(images: Iterable[_ValueT] | AsyncIterable[_ValueT]) -> AsyncGenerator[_ValueT, None]:
    if isinstance(images, AsyncIterable):
        async for image in images:
            yield image
    else:
        for image in images:
            yield image
