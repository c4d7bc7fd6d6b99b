"""Faults put into the engine: threads that die, decoders that break, devices without memory. Items still end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.thread import BrokenThreadPool
from typing import Any, TypeVar

import pytest

from monopath_server.engine import engines, host
from monopath_server.engine.executors import ExecutorUnavailable
from monopath_server.engine.images import PlannedImage, decode_planned
from monopath_server.engine.workers import CancelToken, Workers
from tests.stream.test_order import Gate
from tests.stream.test_stop import health
from tests.support.footprint import settle, until
from tests.support.server import quick_settings
from tests.support.stream import encoded, make_item, photo, png, running_rig

SMALL = encoded(png(photo(50, 40)))
ResultT = TypeVar("ResultT")


class OddFault(BaseException):
    """What is no `Exception`, as some libraries raise."""


class MortalExecutor(ThreadPoolExecutor):
    """A thread pool that can be killed, as one whose threads cannot start is: what waits in it breaks."""

    def kill(self) -> None:
        """Break everything that waits, and refuse everything that comes."""
        self._broken: Any = "killed by a test"
        while True:
            try:
                waiting = self._work_queue.get_nowait()
            except Exception:
                return
            if waiting is not None:
                waiting.future.set_exception(BrokenThreadPool("killed by a test"))


class Pools:
    """Makes the executors of `Workers`, and remembers them by their names."""

    def __init__(self) -> None:
        self.made: dict[str, list[MortalExecutor]] = {}
        self.can_make = True

    def __call__(self, worker_count: int, name: str) -> Executor:
        if not self.can_make:
            raise RuntimeError("can't start new thread")
        pool = MortalExecutor(worker_count, name)
        self.made.setdefault(name, []).append(pool)
        return pool

    def kill(self, name: str) -> None:
        """Kill the newest pool of that name."""
        self.made[name][-1].kill()


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Pools:
    """The pools of every server that the test makes."""
    found = Pools()

    def make_workers(worker_count: int, *, on_health: Callable[[bool], None] | None = None) -> Workers:
        return Workers(worker_count, on_health=on_health, make_executor=found)

    monkeypatch.setattr(engines, "Workers", make_workers)
    return found


@pytest.mark.parametrize("name", ["monopath-plan", "monopath-pixels"])
@pytest.mark.asyncio
async def test_dead_threads_are_replaced_and_the_next_item_is_served(
    name: str, pools: Pools, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_rig(quick_settings(worker_count=1)) as rig:
        expected = (await rig.run([make_item(1, SMALL)])).outcomes[1].sha256
        pools.kill(name)
        stream = await rig.run([make_item(1, SMALL), make_item(2, SMALL)])
        assert [stream.outcomes[item_id].sha256 for item_id in (1, 2)] == [expected] * 2
        assert (await settle(rig.server)).is_idle
    assert len(pools.made[name]) == 2
    assert "are dead and are replaced" in caplog.text


@pytest.mark.asyncio
async def test_items_that_wait_when_their_threads_die_all_end(pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=1)) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, SMALL) for item_id in range(1, 8)))
        await stream.read_until("plan", item_id=7)
        await asyncio.to_thread(gate.reached.wait, 30)
        pools.kill("monopath-pixels")
        gate.open()
        assert await stream.finish() == "OK"
        assert sorted(stream.ended_ids) == list(range(1, 8))
        assert {outcome.reason for outcome in stream.outcomes.values()} <= {"", "OVERLOADED"}
        assert (await settle(rig.server)).is_idle


@pytest.mark.asyncio
async def test_an_item_whose_own_thread_never_starts_ends(pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_rig(quick_settings(worker_count=1)) as rig:
        await rig.run([make_item(1, SMALL)])
        real = MortalExecutor.submit

        def submit_and_die(pool: MortalExecutor, job: Callable[..., ResultT], *args: Any, **kwargs: Any) -> Any:
            if pool is not pools.made["monopath-pixels"][0] or pool._broken:
                return real(pool, job, *args, **kwargs)
            pool.kill()
            broken: Future[ResultT] = Future()
            broken.set_exception(BrokenThreadPool("its thread could not start"))
            return broken

        monkeypatch.setattr(MortalExecutor, "submit", submit_and_die)
        stream = await rig.open()
        async with asyncio.timeout(20):
            await stream.send(make_item(1, SMALL))
            assert await stream.finish() == "OK"
        assert stream.outcomes[1].reason in ("", "OVERLOADED")
        assert (await rig.run([make_item(1, SMALL)])).outcomes[1].completion is not None


@pytest.mark.asyncio
async def test_health_goes_off_while_there_are_no_threads_and_comes_back_with_them(pools: Pools) -> None:
    async with running_rig(quick_settings(worker_count=1)) as rig:
        expected = (await rig.run([make_item(1, SMALL)])).outcomes[1].sha256
        pools.can_make = False
        pools.kill("monopath-pixels")
        stream = await rig.run([make_item(1, SMALL), make_item(2, SMALL)])
        for item_id in (1, 2):
            error = stream.outcomes[item_id].error
            assert stream.outcomes[item_id].reason == "OVERLOADED"
            assert error is not None
            assert error.HasField("retry_after")
            assert "thread" not in error.message
        statuses: list[str] = []
        for wanted in ("NOT_SERVING", "SERVING"):
            async with asyncio.timeout(10):
                while (status := await health(rig.channel, "")) != wanted:
                    await asyncio.sleep(0.01)
            statuses.append(status)
            pools.can_make = True
            await rig.run([make_item(1, SMALL)])
        assert statuses == ["NOT_SERVING", "SERVING"]
        assert (await rig.run([make_item(1, SMALL)])).outcomes[1].sha256 == expected
        assert (await settle(rig.server)).is_idle


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "OVERLOADED"),
        (RecursionError("too deep"), "INTERNAL"),
        (KeyError("secret"), "INTERNAL"),
        (SystemExit(3), "INTERNAL"),
        (OddFault("secret"), "INTERNAL"),
        (BrokenThreadPool("dead"), "OVERLOADED"),
        (ExecutorUnavailable("dead"), "OVERLOADED"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.asyncio
async def test_whatever_a_decoder_raises_ends_its_item_alone(
    error: BaseException, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(planned: PlannedImage, *arguments: Any) -> Any:
        if planned.item.id % 3 == 0:
            raise error
        return decode_planned(planned, *arguments)

    monkeypatch.setattr(host, "decode_planned", failing)
    async with running_rig() as rig:
        stream = await rig.run([make_item(item_id, SMALL) for item_id in range(1, 13)])
        assert (await settle(rig.server)).is_idle
    for item_id, outcome in stream.outcomes.items():
        assert outcome.reason == (reason if item_id % 3 == 0 else "")
    assert len({stream.outcomes[item_id].sha256 for item_id in (1, 2, 4, 5, 7, 8, 10, 11)}) == 1
    assert "secret" not in str([outcome.error for outcome in stream.outcomes.values()])


@pytest.mark.asyncio
async def test_a_transform_that_breaks_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from monopath_server.transforms.cpu.transform import CpuTransform

    real = CpuTransform.rows_into
    calls = iter(range(100))

    def failing(transform: CpuTransform, *arguments: Any) -> None:
        if next(calls) % 2:
            raise RuntimeError("broken kernel")
        real(transform, *arguments)

    async with running_rig(quick_settings(worker_count=1)) as rig:
        stream = await rig.open()  # makes the transform, which tries itself out
        monkeypatch.setattr(CpuTransform, "rows_into", failing)
        await stream.send(*(make_item(item_id, SMALL) for item_id in range(1, 11)))
        assert await stream.finish() == "OK"
        assert (await settle(rig.server)).is_idle
    assert sorted(outcome.reason for outcome in stream.outcomes.values()) == [""] * 5 + ["INTERNAL"] * 5


@pytest.mark.asyncio
async def test_no_memory_for_the_features_of_one_item_is_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_rig(quick_settings(worker_count=1)) as rig:
        real = rig.server.engines.buffers.take
        calls = iter(range(100))

        def starving(size_bytes: int) -> Any:
            if next(calls) == 1:
                raise MemoryError
            return real(size_bytes)

        monkeypatch.setattr(rig.server.engines.buffers, "take", starving)
        stream = await rig.run([make_item(item_id, SMALL) for item_id in range(1, 5)])
        assert (await settle(rig.server)).is_idle
    assert sorted(outcome.reason for outcome in stream.outcomes.values()) == ["", "", "", "OVERLOADED"]


@pytest.mark.asyncio
async def test_jobs_of_dead_workers_are_told_and_later_ones_run() -> None:
    pools = Pools()
    reports: list[bool] = []
    workers = Workers(1, on_health=reports.append, make_executor=pools)
    may_end = threading.Event()
    first = asyncio.create_task(workers.run(lambda: may_end.wait(30), CancelToken(), lambda _: None))
    await until(lambda: len(pools.made["monopath-pixels"][0]._threads) == 1, "a started thread")
    pools.kill("monopath-pixels")
    assert await workers.run(lambda: "on a new thread", CancelToken(), lambda _: None) == "on a new thread"
    may_end.set()
    assert await first
    assert reports == [False, True]
    workers.close()
