"""One server in a process of its own, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from monopath_server.supervision.lifeline import LIFELINE_VARIABLE

__all__ = ["Replica", "ReplicaPlan", "ending_text"]

_READY = b" is ready at "


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """How to start a server."""

    address: str
    """Where it is to listen."""
    command: Callable[[str], Sequence[str]]
    """From the address to the command, which writes a line "... is ready at ADDRESS" to stdout."""
    environment: Mapping[str, str]


class Replica:
    """A running process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    async def start(cls, plan: ReplicaPlan, address: str) -> Self:
        """Start a process that listens at `address`, the plan's or the one that it had before."""
        return cls(
            await asyncio.create_subprocess_exec(
                *plan.command(address),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**plan.environment, LIFELINE_VARIABLE: "0"},
                # Ctrl-C of a terminal reaches the supervisor only; two signals would end a server's grace.
                process_group=0,
            )
        )

    async def ready(self) -> str | None:
        """Wait until the server is ready. Returns its address, or None where it ended before."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            _, separator, address = line.strip().partition(_READY)
            if separator:
                return address.decode()
        return None

    async def ended(self) -> int:
        """Wait for the end. Returns the exit code, or minus the number of the signal."""
        assert self._process.stdout is not None
        while await self._process.stdout.read(4096):
            pass
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def ending_text(code: int) -> str:
    """Say how a process ended: "exit code 1", "signal 9 (SIGKILL)"."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"
