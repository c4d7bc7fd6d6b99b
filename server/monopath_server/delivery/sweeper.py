"""Takes shared memory away that streams left behind: their own, and that of clients that were killed."""

from __future__ import annotations

import asyncio
import contextlib

from monopath_server.delivery.segments import SegmentPool
from monopath_server.delivery.shared_memory import SharedMemory
from monopath_server.engine.executors import ExecutorUnavailable
from monopath_server.engine.workers import Workers

__all__ = ["Sweeper"]

# A process that dies closes its files one by one: its connection can end a little before its lock does.
DEATH_SECONDS = 1.0
# A stream is over once its last message is on the way: its client may come to the handles in it a little later.
LATE_HANDLE_SECONDS = 10.0


class Sweeper:
    """Sweeps once for all streams that end within a while. Used on the event loop only."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._is_wanted = False
        self._sweeping: asyncio.Task[None] | None = None
        self._forgetting: asyncio.Task[None] | None = None

    def sweep_soon(self, memory: SharedMemory) -> None:
        """Have `memory` swept after a while: a stream has ended."""
        loop = asyncio.get_running_loop()
        self._is_wanted = True
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = loop.create_task(self._sweep(memory))
        if self._forgetting is None or self._forgetting.done():
            self._forgetting = loop.create_task(self._forget_retired(memory.pool))

    async def _sweep(self, memory: SharedMemory) -> None:
        while self._is_wanted:
            self._is_wanted = False
            await asyncio.sleep(DEATH_SECONDS)
            # The server may stop meanwhile: the next one sweeps when it starts.
            with contextlib.suppress(RuntimeError, ExecutorUnavailable):
                await self._workers.plan(memory.sweep)

    async def _forget_retired(self, pool: SegmentPool) -> None:
        with contextlib.suppress(RuntimeError, ExecutorUnavailable):
            while pool.retired_bytes:
                await asyncio.sleep(LATE_HANDLE_SECONDS)
                await self._workers.plan(lambda: pool.forget_retired(LATE_HANDLE_SECONDS))
