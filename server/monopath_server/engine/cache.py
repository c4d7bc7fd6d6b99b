"""Features by their content: made once for all who want them at the same time, and kept for those who come later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace

from monopath_server.engine.items import CacheOutcome, Features
from monopath_server.engine.rows import Holding, Rows
from monopath_server.engine.store import ContentKey, FeatureStore
from monopath_server.engine.workers import CancelToken
from monopath_server.processors.types import ImagePlan

__all__ = ["ContentKey", "FeatureCache"]

Make = Callable[[CancelToken], Awaitable[Features]]


@dataclass(slots=True, eq=False)
class _Flight:
    """Features that are being made, and who waits for them."""

    key: tuple[ContentKey, Hashable]
    token: CancelToken
    task: asyncio.Task[Features]
    waiters: dict[asyncio.Future[Features], CacheOutcome] = field(default_factory=dict)
    is_abandoned: bool = False

    def cancel(self) -> None:
        """Nobody wants the features any more."""
        self.is_abandoned = True
        self.token.cancel()
        self.task.cancel()


class FeatureCache:
    """Single flight in front of a store with a limit. Used on the event loop only, except for `evict` and `plan_of`.

    All paths share the store, since they agree in every byte. They do not share flights: a device that fails, or is
    slow, is no matter of an item that another one serves.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Keeps up to `limit_bytes` of features. Larger ones are made, shared by all who wait, and not kept."""
        self._store = FeatureStore(limit_bytes)
        self._joinable: dict[tuple[ContentKey, Hashable], _Flight] = {}
        self._running: set[_Flight] = set()
        self.hit_count = 0
        """Items answered from the store."""
        self.miss_count = 0
        """Items that features were made for."""
        self.joined_count = 0
        """Items that waited for what was being made for another one."""

    @property
    def stored_bytes(self) -> int:
        """Memory of all entries."""
        return self._store.stored_bytes

    @property
    def entry_count(self) -> int:
        """Images whose features are kept."""
        return len(self._store)

    async def features(self, key: ContentKey, make: Make, token: CancelToken, *, device: Hashable = None) -> Features:
        """The features of `key`: kept ones at once, else those that `make` makes for all who ask meanwhile.

        `make` runs in a task of its own, with a token of its own and the turn of `token`'s owner. A caller that is
        cancelled leaves; the last one to leave cancels `make`. The caller owns the holding of what it gets. `timings`
        are those of who made the features, and empty for a hit.

        Raises:
            Exception: whatever `make` raises, to all who wait for it. It is not kept.
        """
        found = self._store.get(key)
        if found is not None:
            self.hit_count += 1
            return found
        flight = self._joinable.get((key, device))
        if flight is None:
            self.miss_count += 1
            outcome = CacheOutcome.MISS
            flight = self._start((key, device), make, CancelToken(token.owner))
        else:
            self.joined_count += 1
            outcome = CacheOutcome.JOINED
        waiter: asyncio.Future[Features] = asyncio.get_running_loop().create_future()
        flight.waiters[waiter] = outcome
        try:
            return await waiter
        except BaseException:
            self._leave(flight, waiter)
            raise
        finally:
            # An error holds this frame, and the frame must not hold the error: only the garbage collector would free
            # the image's bytes.
            del flight, waiter

    def plan_of(self, key: ContentKey) -> ImagePlan | None:
        """The plan of features that are kept; None where none are. Safe to call from every thread."""
        return self._store.plan_of(key)

    def evict(self, predicate: Callable[[Rows], bool], size_bytes: int) -> int:
        """Free memory whose rows satisfy `predicate`, least recently used first. Safe to call from every thread.

        What somebody else holds too is left, since letting go of it frees nothing. Returns the bytes that were freed:
        `size_bytes` or more, or less where no more could be. `predicate` must be quick and must not use the cache.
        """
        return self._store.evict(predicate, size_bytes)

    def move(self, rows: Rows, moved: Holding) -> None:
        """Keep `moved`, the same features in other memory, in the place of `rows`. The caller keeps its own holding."""
        self._store.move(rows, moved)

    async def close(self) -> None:
        """Release everything, and keep nothing from now on. What is still being made is cancelled and waited for."""
        self._store.close()
        for flight in self._running:
            flight.cancel()
        await asyncio.gather(*(flight.task for flight in self._running), return_exceptions=True)

    def _start(self, key: tuple[ContentKey, Hashable], make: Make, token: CancelToken) -> _Flight:
        async def run() -> Features:
            return await make(token)

        flight = _Flight(key, token, asyncio.create_task(run()))
        self._joinable[key] = flight
        self._running.add(flight)
        # A callback, since a task can be cancelled before it starts.
        flight.task.add_done_callback(lambda task: self._land(flight, task))
        return flight

    def _land(self, flight: _Flight, task: asyncio.Task[Features]) -> None:
        """A flight's task is over: tell all who wait, each with a share of its own."""
        self._running.discard(flight)
        self._forget(flight)
        waiters, flight.waiters = flight.waiters, {}
        waiting = [waiter for waiter in waiters if not waiter.done()]
        if task.cancelled():
            for waiter in waiting:
                waiter.cancel()
        elif (error := task.exception()) is not None:
            # The event loop would take a SystemExit in a waiting task to be meant for itself.
            told = error if isinstance(error, Exception) else RuntimeError(f"Making features raised {error!r}")
            for waiter in waiting:
                waiter.set_exception(told)
        else:
            features = task.result()
            for waiter in waiting:
                waiter.set_result(replace(features, holding=features.holding.share(), cache=waiters[waiter]))
            if not flight.is_abandoned:
                self._store.put(flight.key[0], features)
            features.holding.release()

    def _leave(self, flight: _Flight, waiter: asyncio.Future[Features]) -> None:
        """A caller goes without features: they failed, or it was cancelled, perhaps just after they came."""
        if flight.waiters.pop(waiter, None) is not None:
            if not flight.waiters:
                self._forget(flight)
                flight.cancel()
        elif not waiter.cancelled() and waiter.exception() is None:
            waiter.result().holding.release()

    def _forget(self, flight: _Flight) -> None:
        """Nobody joins the flight any more."""
        if self._joinable.get(flight.key) is flight:
            del self._joinable[flight.key]
