"""Single flight through histories of asks, cancellations, ends and evictions."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from monopath_server.engine.items import Features
from monopath_server.engine.rows import Holding
from monopath_server.engine.workers import CancelToken
from tests.engine.test_cache import DAMAGED, TIMINGS, bench
from tests.engine.test_rows import CountedRows
from tests.engine.test_store import BLOCK_BYTES, PLAN, PROVENANCE, key


async def run_steps(steps: list[tuple[str, int]]) -> None:
    """Play a history of asks, cancellations, ends and evictions; whoever gets features gets those of its own key."""
    async with bench(3 * BLOCK_BYTES, collects=False) as at:
        tasks: list[tuple[int, asyncio.Task[Features]]] = []
        makers: dict[int, list[asyncio.Future[bool]]] = {number: [] for number in range(3)}

        def make_of(number: int) -> Any:
            async def make(token: CancelToken) -> Features:
                end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
                makers[number].append(end)
                if not await end:
                    raise DAMAGED
                token.check()
                rows = CountedRows(BLOCK_BYTES + number)
                at.rows.append(rows)
                return Features(Holding(rows), PLAN, PROVENANCE, TIMINGS)

            return make

        def settle(number: int, is_good: bool) -> None:
            for end in makers[number]:
                if not end.done():
                    end.set_result(is_good)

        for step, number in steps:
            match step:
                case "ask":
                    task = asyncio.create_task(at.cache.features(key(number), make_of(number), CancelToken()))
                    tasks.append((number, task))
                case "turn":
                    await asyncio.sleep(0)
                case "cancel":
                    if tasks:
                        tasks[number * 7 % len(tasks)][1].cancel()
                case "evict":
                    at.cache.evict(lambda _: True, BLOCK_BYTES)
                case _:
                    settle(number, step == "succeed")
        for _ in range(20):  # turns of the event loop; whoever is left waits forever
            for number in makers:
                settle(number, True)
            await asyncio.sleep(0)
        assert all(task.done() for _, task in tasks)
        for number, task in tasks:
            if not task.cancelled() and task.exception() is None:
                features = task.result()
                assert features.holding.rows.size_bytes == BLOCK_BYTES + number
                features.holding.release()


STEPS = ("ask", "ask", "turn", "turn", "cancel", "succeed", "fail", "evict")


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=40))
def test_no_history_loses_or_mixes_up_rows(steps: list[tuple[str, int]]) -> None:
    asyncio.run(run_steps(steps))
