"""Jobs in threads: what happens to a result whose caller went away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from monopath_server.engine.workers import CancelToken, JobCancelled, Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers(worker_count=1)
    yield pool
    pool.close()


@pytest.mark.asyncio
async def test_the_result_of_a_running_job_is_discarded_when_its_caller_is_cancelled(workers: Workers) -> None:
    started, may_end, discarded = threading.Event(), threading.Event(), threading.Event()
    results: list[str] = []

    def job() -> str:
        started.set()
        assert may_end.wait(30)
        return "buffer"

    def discard(result: str) -> None:
        results.append(result)
        discarded.set()

    task = asyncio.create_task(workers.run(job, CancelToken(), discard))
    await asyncio.to_thread(started.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    assert await asyncio.to_thread(discarded.wait, 30)
    assert results == ["buffer"]


@pytest.mark.asyncio
async def test_a_queued_job_of_a_cancelled_caller_never_starts(workers: Workers) -> None:
    may_end = threading.Event()
    started: list[int] = []
    first = asyncio.create_task(workers.run(lambda: may_end.wait(30), CancelToken(), lambda _: None))
    second = asyncio.create_task(workers.run(lambda: started.append(2), CancelToken(), lambda _: None))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    may_end.set()
    assert await first
    await workers.run(lambda: started.append(3), CancelToken(), lambda _: None)
    assert started == [3]


@pytest.mark.asyncio
async def test_plans_do_not_wait_for_pixels(workers: Workers) -> None:
    may_end = threading.Event()
    busy = asyncio.create_task(workers.run(lambda: may_end.wait(30), CancelToken(), lambda _: None))
    assert await workers.plan(lambda: "planned") == "planned"
    assert not busy.done()
    may_end.set()
    await busy


def test_a_cancelled_token_stops_a_job_between_two_stages() -> None:
    token = CancelToken()
    token.check()
    token.cancel()
    with pytest.raises(JobCancelled):
        token.check()
