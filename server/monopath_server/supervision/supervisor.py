"""Keeps several servers running: starts them, starts dead ones again, and stops all of them together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monopath_server.supervision.replica import Replica, ReplicaPlan, ending_text

__all__ = ["RestartPolicy", "Running", "Supervisor"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a dead server is started again."""

    first_pause_seconds: float = 0.5
    """Doubled with each further quick death in a row."""
    max_pause_seconds: float = 30.0
    quick_seconds: float = 60.0
    """A server that lived for a shorter time died quickly."""
    max_quick_deaths: int = 5
    """After so many in a row nothing is started any more, and all others are stopped."""

    def pause_seconds(self, quick_deaths: int) -> float:
        """Return how long to wait after so many quick deaths in a row."""
        return min(self.first_pause_seconds * 2.0 ** max(quick_deaths - 1, 0), self.max_pause_seconds)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is ready."""

    address: str
    pid: int


class Supervisor:
    """Runs one process for each plan. Used on one event loop."""

    def __init__(
        self,
        plans: Sequence[ReplicaPlan],
        on_ready: Callable[[Sequence[Running]], None],
        *,
        stop_seconds: float,
        kill_seconds: float = 5.0,
        policy: RestartPolicy | None = None,
    ) -> None:
        """Prepare.

        Args:
            plans: How to start each.
            on_ready: Told when all are ready, and again when one that died is.
            stop_seconds: What is still there so long after `stop` is killed.
            kill_seconds: The same after a second `stop`.
            policy: When dead ones are started again.
        """
        self._plans = plans
        self._on_ready = on_ready
        self._stop_seconds = stop_seconds
        self._kill_seconds = kill_seconds
        self._policy = policy or RestartPolicy()
        self._replicas: dict[int, Replica] = {}
        self._running: dict[int, Running] = {}
        self._stopping = asyncio.Event()
        self._first_is_ready = asyncio.Event()
        self._failed_code = 0

    async def run_until_signalled(self) -> int:
        """Run until SIGTERM or SIGINT, the second of which ends the grace. Returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        return await self.run()

    async def run(self) -> int:
        """Run until `stop`, or until a server cannot be kept running. Returns the exit code."""
        async with asyncio.TaskGroup() as tasks:
            for index in range(len(self._plans)):
                tasks.create_task(self._keep(index))
        return self._failed_code

    def stop(self) -> None:
        """Ask all servers to finish what they accepted and to end; the second time, to end at once."""
        again = self._stopping.is_set()
        self._stopping.set()
        self._first_is_ready.set()
        self._send(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(self._kill_seconds if again else self._stop_seconds, self._send, signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for replica in self._replicas.values():
            replica.send(number)

    async def _keep(self, index: int) -> None:
        """Start a server, again and again, until all are to stop."""
        if index:
            # The first one compiles the kernels for all, and says alone what is wrong with all.
            await self._first_is_ready.wait()
        address, was_ready, quick_deaths = self._plans[index].address, False, 0
        while not self._stopping.is_set():
            started_seconds = asyncio.get_running_loop().time()
            pid, code = await self._run_once(index, address)
            if self._stopping.is_set():
                self._note_end(index, code)
                return
            lived_seconds = asyncio.get_running_loop().time() - started_seconds
            if (ran := self._running.pop(index, None)) is not None:
                # The port that was found: clients know it by now.
                address, was_ready = ran.address, True
            if not was_ready:
                self._fail(code, "Process %d cannot start (%s)", index, ending_text(code))
                return
            quick_deaths = quick_deaths + 1 if lived_seconds < self._policy.quick_seconds else 0
            who = f"Process {index} at {address} (pid {pid}) ended with {ending_text(code)}"
            if quick_deaths >= self._policy.max_quick_deaths:
                self._fail(1, "%s, for the %dth time in a row soon after its start; giving up", who, quick_deaths)
                return
            pause_seconds = self._policy.pause_seconds(quick_deaths)
            logger.error("%s; it is started again in %.1f s", who, pause_seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_seconds)

    async def _run_once(self, index: int, address: str) -> tuple[int, int]:
        """Run one process to its end. Returns its id and its exit code."""
        try:
            replica = await Replica.start(self._plans[index], address)
        except OSError as error:
            logger.error("Process %d: %s", index, error)
            return 0, 1
        self._replicas[index] = replica
        try:
            if self._stopping.is_set():
                replica.send(signal.SIGTERM)
            if (found := await replica.ready()) is not None:
                self._note_ready(index, Running(found, replica.pid))
            return replica.pid, await replica.ended()
        finally:
            del self._replicas[index]

    def _note_ready(self, index: int, running: Running) -> None:
        self._running[index] = running
        self._first_is_ready.set()
        if len(self._running) == len(self._plans) and not self._stopping.is_set():
            self._on_ready([self._running[at] for at in range(len(self._plans))])

    def _note_end(self, index: int, code: int) -> None:
        """One that was asked to end has ended; SIGTERM ends one that was not yet ready."""
        if code not in (0, -signal.SIGTERM):
            logger.error("Process %d ended with %s", index, ending_text(code))
            self._failed_code = self._failed_code or 1

    def _fail(self, code: int, text: str, *values: object) -> None:
        """One cannot be kept running: say so, and stop the others."""
        logger.error(text, *values)
        self._failed_code = code if code > 0 else 1
        self.stop()
