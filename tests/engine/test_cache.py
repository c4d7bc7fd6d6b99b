"""Single flight: features are made once for all who want them, whoever leaves harms nobody, and no rows are lost."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Hashable
from typing import Any

import pytest

from monopath_server.engine.cache import FeatureCache
from monopath_server.engine.items import CacheOutcome, Features, Timings
from monopath_server.engine.rows import Holding
from monopath_server.engine.workers import CancelToken, JobCancelled
from monopath_server.faults import ItemFault, ItemReason
from tests.engine.test_rows import CountedRows
from tests.engine.test_store import BLOCK_BYTES, PLAN, PROVENANCE, key

TIMINGS = Timings(planning_ns=1, queued_ns=2, decoding_ns=3, transforming_ns=4)
DAMAGED = ItemFault(ItemReason.IMAGE_DAMAGED, "Expected an image, got noise")


class Maker:
    """Makes features when it is told to."""

    def __init__(self, rows: list[CountedRows], size_bytes: int = BLOCK_BYTES) -> None:
        self.tokens: list[CancelToken] = []
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.error: BaseException | None = None
        self.ignores_cancellation = False
        """The first one, as a job does that runs in a thread."""
        self._rows = rows
        self._size_bytes = size_bytes

    async def __call__(self, token: CancelToken) -> Features:
        self.tokens.append(token)
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            if not self.ignores_cancellation:
                raise
            await self.may_end.wait()
        if self.error is not None:
            raise self.error
        rows = CountedRows(self._size_bytes)
        self._rows.append(rows)
        return Features(Holding(rows), PLAN, PROVENANCE, TIMINGS)


class Bench:
    """A cache, makers for it, and all rows they made."""

    def __init__(self, limit_bytes: int = 100 * BLOCK_BYTES) -> None:
        self.cache = FeatureCache(limit_bytes)
        self.rows: list[CountedRows] = []

    def maker(self, size_bytes: int = BLOCK_BYTES) -> Maker:
        return Maker(self.rows, size_bytes)

    def ask(self, maker: Maker, number: int = 1, *, device: Hashable = None) -> asyncio.Task[Features]:
        return asyncio.create_task(self.cache.features(key(number), maker, CancelToken(), device=device))

    async def ask_and_wait(self, maker: Maker, count: int = 1) -> list[asyncio.Task[Features]]:
        """Callers that wait for a maker that has started."""
        tasks = [self.ask(maker) for _ in range(count)]
        await maker.started.wait()
        return tasks


@contextlib.asynccontextmanager
async def bench(limit_bytes: int = 100 * BLOCK_BYTES, *, collects: bool = True) -> AsyncIterator[Bench]:
    """On the way out nothing is left, and asyncio has nothing to complain about, garbage included if it `collects`."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    found = Bench(limit_bytes)
    async with asyncio.timeout(30):
        yield found
        await found.cache.close()
    assert [rows.release_count for rows in found.rows] == [1] * len(found.rows)
    assert (found.cache.entry_count, found.cache.stored_bytes) == (0, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    if collects:
        gc.collect()
    assert complaints == []


async def cancelled(*tasks: asyncio.Task[Features]) -> None:
    """Cancel tasks and see them cancelled."""
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * len(tasks)


@pytest.mark.asyncio
async def test_ten_callers_at_once_have_one_maker_and_a_share_each() -> None:
    async with bench() as at:
        maker = at.maker()
        tasks = await at.ask_and_wait(maker, 10)
        maker.may_end.set()
        found = await asyncio.gather(*tasks)
        assert len(maker.tokens) == 1
        assert [features.cache for features in found] == [CacheOutcome.MISS] + [CacheOutcome.JOINED] * 9
        assert {id(features.holding.rows) for features in found} == {id(at.rows[0])}
        assert {features.timings for features in found} == {TIMINGS}
        assert (at.cache.miss_count, at.cache.joined_count, at.cache.hit_count) == (1, 9, 0)
        at.cache.evict(lambda _: True, BLOCK_BYTES)
        for features in found:
            assert at.rows[0].release_count == 0
            features.holding.release()


@pytest.mark.asyncio
async def test_who_comes_later_is_answered_at_once_and_without_a_maker() -> None:
    async with bench() as at:
        maker, unused = at.maker(), at.maker()
        maker.may_end.set()
        first = await at.ask(maker)
        coroutine = at.cache.features(key(1), unused, CancelToken())
        with pytest.raises(StopIteration) as answer:  # it has not to wait for a turn of the event loop
            coroutine.send(None)
        second: Features = answer.value.value
        assert unused.tokens == []
        assert second.cache is CacheOutcome.HIT
        assert second.holding.rows is first.holding.rows
        assert (at.cache.hit_count, at.cache.entry_count, at.cache.stored_bytes) == (1, 1, BLOCK_BYTES)
        first.holding.release()
        second.holding.release()


@pytest.mark.parametrize("leaving", [0, 3, 9], ids=["who came first", "one of them", "who came last"])
@pytest.mark.asyncio
async def test_a_caller_that_is_cancelled_leaves_the_others_their_features(leaving: int) -> None:
    async with bench() as at:
        maker = at.maker()
        tasks = await at.ask_and_wait(maker, 10)
        await cancelled(tasks.pop(leaving))
        maker.may_end.set()
        for features in await asyncio.gather(*tasks):
            features.holding.release()
        maker.tokens[0].check()
        assert len(maker.tokens) == 1


@pytest.mark.asyncio
async def test_a_maker_that_nobody_waits_for_is_cancelled() -> None:
    async with bench() as at:
        maker, next_maker = at.maker(), at.maker()
        await cancelled(*await at.ask_and_wait(maker, 3))
        with pytest.raises(JobCancelled):
            maker.tokens[0].check()
        next_maker.may_end.set()
        features = await at.ask(next_maker)
        assert features.cache is CacheOutcome.MISS
        features.holding.release()


@pytest.mark.asyncio
async def test_a_maker_that_is_cancelled_before_it_starts_is_never_called() -> None:
    async with bench() as at:
        maker = at.maker()
        task = at.ask(maker)
        await asyncio.sleep(0)
        await at.cache.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert maker.tokens == []


@pytest.mark.asyncio
async def test_what_a_cancelled_maker_makes_all_the_same_is_released_and_not_kept() -> None:
    async with bench() as at:
        stubborn, maker = at.maker(), at.maker()
        stubborn.ignores_cancellation = True
        await cancelled(*await at.ask_and_wait(stubborn, 2))
        newcomer = at.ask(maker)
        await maker.started.wait()
        stubborn.may_end.set()
        while not at.rows:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert at.rows[0].release_count == 1
        assert at.cache.entry_count == 0
        joined = at.ask(maker)
        maker.may_end.set()
        found = await asyncio.gather(newcomer, joined)
        assert [features.cache for features in found] == [CacheOutcome.MISS, CacheOutcome.JOINED]
        for features in found:
            assert features.holding.rows is at.rows[1]
            features.holding.release()


@pytest.mark.asyncio
async def test_an_error_is_told_to_all_who_wait_and_not_kept() -> None:
    async with bench() as at:
        maker, next_maker = at.maker(), at.maker()
        tasks = await at.ask_and_wait(maker, 4)
        left = tasks.pop()
        await cancelled(left)
        maker.error = DAMAGED
        maker.may_end.set()
        assert await asyncio.gather(*tasks, return_exceptions=True) == [DAMAGED] * 3
        assert len(maker.tokens) == 1
        assert at.cache.entry_count == 0
        next_maker.error = JobCancelled()
        next_maker.may_end.set()
        with pytest.raises(JobCancelled):
            await at.ask(next_maker)
        assert at.cache.miss_count == 2


@pytest.mark.asyncio
async def test_an_error_that_nobody_waits_for_is_nobodys() -> None:
    async with bench() as at:
        maker = at.maker()
        maker.ignores_cancellation = True
        await cancelled(*await at.ask_and_wait(maker, 2))
        maker.error = DAMAGED
        maker.may_end.set()


class Sabotage(BaseException):
    """Something that no maker should raise."""


@pytest.mark.asyncio
async def test_what_is_not_an_exception_reaches_all_who_wait_as_one() -> None:
    async with bench() as at:
        maker = at.maker()
        tasks = await at.ask_and_wait(maker, 2)
        maker.error = Sabotage("!")
        maker.may_end.set()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, RuntimeError)
            assert "Sabotage" in str(error)


@pytest.mark.asyncio
async def test_a_maker_that_is_cancelled_from_within_cancels_all_who_wait() -> None:
    async with bench() as at:
        maker = at.maker()
        tasks = await at.ask_and_wait(maker, 2)
        maker.error = asyncio.CancelledError()
        maker.may_end.set()
        assert {type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)} == {
            asyncio.CancelledError
        }


@pytest.mark.parametrize("error", [None, DAMAGED], ids=["features", "an error"])
@pytest.mark.parametrize("turns", range(6))
@pytest.mark.asyncio
async def test_callers_that_are_cancelled_just_when_the_end_comes_lose_nothing(
    turns: int, error: Exception | None
) -> None:
    async with bench() as at:
        maker = at.maker()
        maker.error = error
        tasks = await at.ask_and_wait(maker, 3)
        maker.may_end.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Features):
                result.holding.release()
        assert isinstance(results[2], Features) if error is None else results[2] is error


@pytest.mark.asyncio
async def test_other_content_has_another_maker() -> None:
    async with bench() as at:
        makers = [at.maker() for _ in range(3)]
        tasks = [at.ask(maker, number) for number, maker in enumerate(makers)]
        for maker in makers:
            await maker.started.wait()
            maker.may_end.set()
        found = await asyncio.gather(*tasks)
        assert {features.cache for features in found} == {CacheOutcome.MISS}
        assert [features.holding.rows for features in found] == at.rows
        for features in found:
            features.holding.release()


@pytest.mark.asyncio
async def test_devices_share_what_is_kept_but_neither_wait_for_nor_fail_each_other() -> None:
    async with bench() as at:
        of_cpu, of_gpu, unused = at.maker(), at.maker(), at.maker()
        on_cpu, also_on_cpu = at.ask(of_cpu, device="cpu"), at.ask(unused, device="cpu")
        on_gpu = at.ask(of_gpu, device="gpu")
        of_gpu.error = RuntimeError("an illegal memory access")
        of_gpu.may_end.set()
        with pytest.raises(RuntimeError, match="illegal"):
            await on_gpu
        of_cpu.may_end.set()
        found = [await on_cpu, await also_on_cpu, await at.ask(unused, device="gpu")]
        assert [features.cache for features in found] == [CacheOutcome.MISS, CacheOutcome.JOINED, CacheOutcome.HIT]
        for features in found:
            assert features.holding.rows is at.rows[0]
            features.holding.release()


@pytest.mark.asyncio
async def test_features_larger_than_the_cache_are_shared_and_not_kept() -> None:
    async with bench(BLOCK_BYTES) as at:
        maker = at.maker(BLOCK_BYTES + 1)
        tasks = await at.ask_and_wait(maker, 3)
        maker.may_end.set()
        for features in await asyncio.gather(*tasks):
            features.holding.release()
        assert at.cache.entry_count == 0
        assert at.rows[0].release_count == 1


@pytest.mark.asyncio
async def test_a_maker_takes_the_turn_of_who_came_first_and_not_its_end() -> None:
    async with bench() as at:
        maker = at.maker()
        tokens = [CancelToken("first"), CancelToken("second")]
        tasks = [asyncio.create_task(at.cache.features(key(1), maker, token)) for token in tokens]
        await maker.started.wait()
        assert maker.tokens[0].owner == "first"
        tokens[0].cancel()
        await cancelled(tasks[0])
        maker.tokens[0].check()
        await cancelled(tasks[1])


@pytest.mark.asyncio
async def test_closing_cancels_what_is_being_made_and_keeps_nothing_afterwards() -> None:
    async with bench() as at:
        kept, flying, late = at.maker(), at.maker(), at.maker()
        kept.may_end.set()
        (await at.ask(kept, 1)).holding.release()
        task = at.ask(flying, 2)
        await flying.started.wait()
        await at.cache.close()
        assert at.rows[0].release_count == 1
        with pytest.raises(asyncio.CancelledError):
            await task
        late.may_end.set()
        (await at.ask(late, 3)).holding.release()
        assert at.cache.entry_count == 0


@pytest.mark.asyncio
async def test_a_failed_item_is_freed_without_the_garbage_collector() -> None:
    class Image:
        """Stands for the bytes that a maker holds."""

    async def fails(cache: FeatureCache) -> weakref.ref[Image]:
        image = Image()

        async def make(_token: CancelToken, _image: Image = image) -> Features:
            raise ItemFault(ItemReason.IMAGE_DAMAGED, "Expected an image, got noise")

        with contextlib.suppress(ItemFault):
            await cache.features(key(1), make, CancelToken())
        return weakref.ref(image)

    async with bench() as at:
        gc.collect()
        gc.disable()
        try:
            image = await fails(at.cache)
            await asyncio.sleep(0)
            assert image() is None
        finally:
            gc.enable()
