"""The asyncio fleet: one `map` over the servers of several clients."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Generic

from monopath._async_mapping import AsyncMapping
from monopath._async_stream import CLOSE_GRACE_SECONDS, AsyncStream
from monopath._fleet_core import FleetCore, FleetRecord
from monopath._mapping_core import SEVERAL_STREAMS_CREDIT_COUNT
from monopath._messages import InputT
from monopath._paths import PathT
from monopath._results import PlanEvent, Result
from monopath._resume import Resume

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

__all__ = ["AsyncFleet"]


class AsyncFleet(FleetRecord, Generic[PathT, InputT]):
    """Several streams of one path, each of a client of its own, that share the items of a `map`.

    For servers that are not reached alike: the processes of one host over unix sockets, one over shared memory and the
    others inline, other credentials. Each stream opens as its own client and arguments say; path, element type and
    order have to be the same, and so has the config that the servers open to. Replicas that are reached alike need no
    fleet: give their addresses to one client, and `streams` to its `map`.

    The streams given are not opened themselves: each `map` opens its own, and leaves none behind.
    """

    def __init__(self, streams: Sequence[AsyncStream[PathT, InputT]]) -> None:
        """Nothing is sent yet. Raises ValueError for no streams, or ones of different paths, element types or orders.

        One client may be given with several streams.
        """
        super().__init__([stream._core for stream in streams])
        self._streams = tuple(streams)

    async def map(
        self,
        images: Iterable[InputT] | AsyncIterable[InputT],
        *,
        on_plan: Callable[[PlanEvent], None] | None = None,
        resume: Resume | None = None,
        max_items_per_stream: int = SEVERAL_STREAMS_CREDIT_COUNT,
    ) -> AsyncGenerator[Result[PathT], None]:
        """Send images and yield exactly one result for each: features, or the item's error as a value.

        Ids are 1, 2, 3, ... in the order of `images`, whichever stream took them, and results come in the streams'
        order. Images are taken lazily, when a stream has room: each has at most `max_items_per_stream` in flight, less
        where its server or its own arguments say so, and takes the next one when it is done with one. So a slow server
        takes fewer. More keep a server with many workers busy.

        A server that is lost, or is not reached, is no end while another one is: its items go to the others, `resume`
        says how often, and it is asked again. Closing the iterator early
        cancels the items that have no result yet.

        Raises TypeError for what is no image, OSError for a file that cannot be read, StreamRefused where a server
        refuses its stream, StreamMoved for one that opens to another config, and a `MonopathError` where no stream can
        go on.
        """
        if max_items_per_stream < 1:
            raise ValueError(f"Expected at least 1 item per stream, got {max_items_per_stream}")
        links = [stream._lend() for stream in self._streams]
        core = FleetCore(
            [link.core for link in links],
            resume or Resume(),
            credit_count=max_items_per_stream,
            on_ready=self._take_ready,
        )
        mapping = AsyncMapping(links, core, close_grace_seconds=CLOSE_GRACE_SECONDS, keeps_first=False)
        for stream in self._streams:
            # A client that is closed ends it, even where the loop was left and nobody closed its iterator.
            stream._mappings.add(mapping)
        try:
            async with contextlib.aclosing(mapping.run(images, on_plan)) as results:
                async for result in results:
                    yield result
                    # What the caller has dropped is not to be held here while the next one is waited for.
                    del result
        finally:
            self._add_summary(links[0].core.summary)
