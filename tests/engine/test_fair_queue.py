"""Streams take turns by the work they ask for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monopath_server.engine.fair_queue import SWEPT_LANES, FairQueue


def drain(queue: FairQueue[tuple[str, int]]) -> list[tuple[str, int]]:
    jobs = []
    while (job := queue.pop()) is not None:
        jobs.append(job)
    return jobs


def test_one_small_job_waits_for_at_most_one_large_one_of_another_owner() -> None:
    queue = FairQueue[tuple[str, int]]()
    for number in range(500):
        queue.push("large", 60_000, ("large", number))
    for _ in range(3):
        queue.pop()
    queue.push("small", 4, ("small", 0))
    assert ("small", 0) in [queue.pop(), queue.pop()]


def test_owners_get_equal_work_not_equal_counts() -> None:
    queue = FairQueue[tuple[str, int]]()
    for number in range(100):
        queue.push("large", 10, ("large", number))
        queue.push("small", 1, ("small", number))
    first = [queue.pop() for _ in range(55)]
    small_count = sum(job is not None and job[0] == "small" for job in first)
    assert 45 <= small_count <= 51


def test_a_pause_saves_nothing_up() -> None:
    queue = FairQueue[tuple[str, int]]()
    queue.push("idler", 1, ("idler", 0))
    queue.pop()
    for number in range(50):
        queue.push("worker", 1, ("worker", number))
    for _ in range(40):
        queue.pop()
    for number in range(10):
        queue.push("idler", 1, ("idler", number))
    owners = [job[0] for job in drain(queue)]
    assert owners[:4].count("idler") <= 3


def test_owners_that_have_gone_are_forgotten() -> None:
    queue = FairQueue[tuple[str, int]]()
    for number in range(5 * SWEPT_LANES):
        queue.push(number, 1, ("short-lived", number))
        queue.pop()
    assert len(queue._lanes) <= SWEPT_LANES + 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 100)), max_size=60))
def test_every_job_comes_out_once_and_each_owners_in_order(jobs: list[tuple[str, int]]) -> None:
    queue = FairQueue[tuple[str, int]]()
    pushed: dict[str, list[tuple[str, int]]] = {}
    for number, (owner, cost) in enumerate(jobs):
        queue.push(owner, cost, (owner, number))
        pushed.setdefault(owner, []).append((owner, number))
    assert len(queue) == len(jobs)
    popped = drain(queue)
    assert len(popped) == len(jobs)
    assert len(queue) == 0
    for owner, expected in pushed.items():
        assert [job for job in popped if job[0] == owner] == expected
