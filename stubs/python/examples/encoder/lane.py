"""One long stream of one path: the images of all requests go into it, and each request gets its results back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic

from examples.encoder.faults import Refused, Unavailable
from examples.encoder.sources import Source
from monopath import (
    AsyncStream,
    CallError,
    DeadlineExceeded,
    InputT,
    MonopathError,
    PathT,
    ProtocolError,
    Result,
    Resume,
)

__all__ = ["Lane", "fault_of"]

_RESUME = Resume(max_opening_count=30, max_wait_seconds=1.0)
"""Half a minute for a killed server to be there again; until then items wait, and none is lost."""


class Lane(Generic[PathT, InputT]):
    """The stream of one path. It is opened for the first request, and again for the next one after it was lost."""

    def __init__(self, open_stream: Callable[[], AsyncStream[PathT, InputT]]) -> None:
        """`open_stream` returns a stream that is not open yet."""
        self._open_stream = open_stream
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Result[PathT]]] = {}
        self._items: asyncio.Queue[InputT] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def results(self, sources: Sequence[Source[InputT]]) -> list[Result[PathT]]:
        """Return one result for each source, in their order; a bad image's is its error.

        Raises Unavailable where the server was lost for too long, and Refused for a config that it does not take.
        """
        if not sources:
            return []
        if self._task is None:
            self._task = asyncio.create_task(self._carry())
            # Not in the task itself: one that is cancelled at once never runs.
            self._task.add_done_callback(self._end)
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Result[PathT]]] = []
        for source in sources:
            label = str(next(self._numbers))
            futures.append(loop.create_future())
            self._waiting[label] = futures[-1]
            self._items.put_nowait(source.labelled(label))
        return await asyncio.gather(*futures)

    async def close(self) -> None:
        """End the stream. Requests that wait for it fail."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _carry(self) -> None:
        """Carry items until the stream is lost for good; `map` itself goes on over servers that come and go."""
        async with (
            self._open_stream() as stream,
            contextlib.aclosing(stream.map(self._each(), resume=_RESUME)) as results,
        ):
            async for result in results:
                future = self._waiting.pop(result.label)
                # Who has gone does not wait any more.
                if not future.done():
                    future.set_result(result)
                # Its memory is the server's again when its request is done with it.
                del result, future

    def _end(self, task: asyncio.Task[None]) -> None:
        """Fail what waits; the next request begins anew."""
        waiting, self._waiting, self._items, self._task = self._waiting, {}, asyncio.Queue(), None
        error = None if task.cancelled() else task.exception()
        fault = Unavailable("The stream was closed") if error is None else error
        if isinstance(error, MonopathError):
            fault = fault_of(error)
        for future in waiting.values():
            if not future.done():
                future.set_exception(fault)

    async def _each(self) -> AsyncIterator[InputT]:
        items = self._items
        while True:
            yield await items.get()


def fault_of(error: MonopathError) -> Exception:
    """Return what a call or stream to the preprocessing server ended with, as one of this package's faults."""
    match error:
        case DeadlineExceeded():
            return Unavailable(str(error))
        case CallError() if not error.stream_may_resume:
            return Refused(str(error))
        case ProtocolError():
            return Refused(str(error))
        case _:
            return Unavailable(str(error))
