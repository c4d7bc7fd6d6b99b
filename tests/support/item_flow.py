"""Items that flow while servers come and go, and what has to be true of their results."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from monopath import AsyncClient, Item, RawImage, Result
from tests.support.footprint import until

__all__ = ["ItemFlow"]

PIXELS = np.random.default_rng(9).integers(0, 256, (160, 400, 3), dtype=np.uint8)
SIZE_COUNT = 60


class ItemFlow:
    """Images over four streams of a client, from its making until `finish`."""

    def __init__(self, client: AsyncClient) -> None:
        self.results: list[Result[Any]] = []
        self._is_enough = False
        self._task = asyncio.create_task(self._run(client))

    async def wait_for(self, count: int) -> None:
        """Wait until so many more results have come. Raises what ended the flow before."""
        goal = len(self.results) + count
        await until(lambda: self._task.done() or len(self.results) >= goal, f"{goal} results")
        if self._task.done():
            await self._task
            raise AssertionError(f"Expected {goal} results, got {len(self.results)} and the end")

    async def finish(self) -> None:
        """Send no more, wait for what is under way, and check that each item has one result, of its own image."""
        self._is_enough = True
        await self._task
        assert sorted(result.id for result in self.results) == list(range(1, len(self.results) + 1))
        for result in self.results:
            result.raise_for_error()
            assert str(result.plan.original_size.height_px) == result.label == _image(result.id - 1).label

    async def _run(self, client: AsyncClient) -> None:
        async with client.deferred_cpu(preset="kimi-k3", data_type="float32") as stream:
            async for result in stream.map(self._images(), streams=4):
                self.results.append(result)

    def _images(self) -> Iterator[Item]:
        for index in itertools.count():
            if self._is_enough:
                return
            yield _image(index)


def _image(index: int) -> Item:
    """Each of its own size, so that a result shows whose it is."""
    height = 100 + index % SIZE_COUNT
    return Item(RawImage(PIXELS[:height], "RGB8"), label=str(height))
