"""The supervisor, over stand-ins for servers that start at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from monopath_server.supervision.replica import ReplicaPlan, ending_text
from monopath_server.supervision.supervisor import RestartPolicy, Running, Supervisor
from tests.supervision import stand_in

QUICKLY = RestartPolicy(first_pause_seconds=0.01, max_pause_seconds=0.02, quick_seconds=600.0, max_quick_deaths=3)
BOUND_SECONDS = 60.0


class Watched:
    """What a supervisor told, and ways to wait for it."""

    def __init__(self, folder: Path, manners: Sequence[str], *, kill_seconds: float = 60.0) -> None:
        self.told: list[list[Running]] = []
        self._folder = folder
        self._is_told = asyncio.Event()
        plans = [plan(folder, index, manner) for index, manner in enumerate(manners)]
        self.supervisor = Supervisor(
            plans, self._on_ready, stop_seconds=60.0, kill_seconds=kill_seconds, policy=QUICKLY
        )

    def _on_ready(self, running: Sequence[Running]) -> None:
        self.told.append(list(running))
        self._is_told.set()

    async def next_told(self) -> list[Running]:
        """Wait until the supervisor tells that all are ready."""
        await asyncio.wait_for(self._is_told.wait(), BOUND_SECONDS)
        self._is_told.clear()
        return self.told[-1]

    def starts(self, index: int) -> list[tuple[int, str]]:
        """Process ids and addresses of all starts."""
        try:
            lines = (self._folder / f"starts.{index}").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [(int(pid), address) for pid, address in map(str.split, lines)]


def plan(folder: Path, index: int, manner: str) -> ReplicaPlan:
    """Return how to start a stand-in."""
    fixed = [sys.executable, "-m", stand_in.__name__, str(folder), str(index), manner]
    return ReplicaPlan("127.0.0.1:0", lambda address: [*fixed, address], dict(os.environ))


@pytest.mark.asyncio
async def test_all_are_told_of_once_and_end_together(tmp_path: Path) -> None:
    watched = Watched(tmp_path, ["serve", "serve", "serve"])
    running = asyncio.create_task(watched.supervisor.run())
    told = await watched.next_told()
    assert [one.address for one in told] == ["127.0.0.1:1000", "127.0.0.1:1001", "127.0.0.1:1002"]
    assert [one.pid for one in told] == [watched.starts(index)[0][0] for index in range(3)]
    watched.supervisor.stop()
    assert await asyncio.wait_for(running, BOUND_SECONDS) == 0
    assert len(watched.told) == 1
    assert ended(tmp_path) == ["ended.0", "ended.1", "ended.2"]


@pytest.mark.asyncio
async def test_a_killed_one_is_reported_and_started_again_at_the_address_that_clients_know(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path, ["serve", "serve"])
    running = asyncio.create_task(watched.supervisor.run())
    before = await watched.next_told()
    os.kill(before[1].pid, signal.SIGKILL)
    after = await watched.next_told()
    assert after[0] == before[0]
    assert after[1].address == before[1].address
    assert after[1].pid != before[1].pid
    assert watched.starts(1) == [(before[1].pid, "127.0.0.1:0"), (after[1].pid, "127.0.0.1:1001")]
    watched.supervisor.stop()
    assert await asyncio.wait_for(running, BOUND_SECONDS) == 0
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == (
        f"Process 1 at 127.0.0.1:1001 (pid {before[1].pid}) ended with signal 9 (SIGKILL); it is started again in 0.0 s"
    )


@pytest.mark.asyncio
async def test_one_that_dies_again_and_again_ends_all_with_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path, ["serve", "die"])
    assert await asyncio.wait_for(watched.supervisor.run(), BOUND_SECONDS) == 1
    assert (len(watched.starts(0)), len(watched.starts(1))) == (1, QUICKLY.max_quick_deaths)
    assert ended(tmp_path) == ["ended.0"]
    last = caplog.records[-1].getMessage()
    assert last.endswith("ended with exit code 3, for the 3th time in a row soon after its start; giving up")


@pytest.mark.asyncio
async def test_the_first_one_says_alone_that_it_cannot_start(tmp_path: Path) -> None:
    watched = Watched(tmp_path, ["refuse", "serve", "serve"])
    assert await asyncio.wait_for(watched.supervisor.run(), BOUND_SECONDS) == 2
    assert [len(watched.starts(index)) for index in range(3)] == [1, 0, 0]
    assert watched.told == []


@pytest.mark.asyncio
async def test_a_later_one_that_cannot_start_ends_the_others(tmp_path: Path) -> None:
    watched = Watched(tmp_path, ["serve", "refuse"])
    assert await asyncio.wait_for(watched.supervisor.run(), BOUND_SECONDS) == 2
    assert ended(tmp_path) == ["ended.0"]


@pytest.mark.asyncio
async def test_what_cannot_be_started_at_all_is_a_report_and_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = ReplicaPlan("127.0.0.1:0", lambda _address: [str(tmp_path / "nothing")], {})
    supervisor = Supervisor([nowhere], lambda _running: None, stop_seconds=60.0)
    assert await asyncio.wait_for(supervisor.run(), BOUND_SECONDS) == 1
    assert "No such file or directory" in caplog.records[0].getMessage()


@pytest.mark.asyncio
async def test_a_second_stop_kills_what_does_not_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(tmp_path, ["stay"], kill_seconds=0.0)
    running = asyncio.create_task(watched.supervisor.run())
    await watched.next_told()
    watched.supervisor.stop()
    done, _ = await asyncio.wait([running], timeout=0.2)
    assert not done
    watched.supervisor.stop()
    assert await asyncio.wait_for(running, BOUND_SECONDS) == 1
    assert caplog.records[-1].getMessage() == "Process 0 ended with signal 9 (SIGKILL)"


def test_servers_end_by_themselves_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio, pathlib
from monopath_server.supervision.supervisor import Supervisor
from tests.supervision.test_supervisor import plan
folder = pathlib.Path({str(tmp_path)!r})
plans = [plan(folder, index, "serve") for index in range(2)]
asyncio.run(Supervisor(plans, lambda _: (folder / "ready").touch(), stop_seconds=60.0).run())
"""
    with subprocess.Popen([sys.executable, "-c", program]) as supervisor:
        try:
            wait_until((tmp_path / "ready").exists)
        finally:
            supervisor.kill()
    wait_until(lambda: ended(tmp_path) == ["ended.0", "ended.1"])


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exit code 0"), (-15, "signal 15 (SIGTERM)"), (-34, "signal 34"), (-200, "signal 200")]
)
def test_an_ending_is_told_in_words(code: int, text: str) -> None:
    assert ending_text(code).startswith(text)


@pytest.mark.parametrize(("deaths", "seconds"), [(0, 0.5), (1, 0.5), (2, 1.0), (4, 4.0), (50, 30.0)])
def test_pauses_double_up_to_a_bound(deaths: int, seconds: float) -> None:
    assert RestartPolicy().pause_seconds(deaths) == seconds


def ended(folder: Path) -> list[str]:
    """Return who ended because it was asked to."""
    return sorted(path.name for path in folder.glob("ended.*"))


def wait_until(is_so: Callable[[], bool]) -> None:
    """Poll, within a bound."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
