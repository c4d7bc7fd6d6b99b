"""Asks for a server's health at a steady pace, in a process of its own: a busy client would measure itself.

`python -m tests.load.health_probe ADDRESS` asks until its standard input ends, then prints what it found as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc

from tests.support.health import health_status
from tests.support.processes import REPOSITORY

__all__ = ["HealthAnswers", "probing"]

INTERVAL_SECONDS = 0.05


@dataclass
class HealthAnswers:
    """Filled in once the probe has ended."""

    statuses: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()

    @property
    def p99_seconds(self) -> float:
        """Time under which 99 of 100 questions were answered."""
        return sorted(self.seconds)[len(self.seconds) * 99 // 100]


@contextlib.asynccontextmanager
async def probing(address: str) -> AsyncIterator[HealthAnswers]:
    """Ask during the context."""
    answers = HealthAnswers()
    probe = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        address,
        cwd=REPOSITORY,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert probe.stdout is not None
        assert await probe.stdout.readline() == b"asking\n"
        yield answers
        output, _ = await asyncio.wait_for(probe.communicate(b""), 30)
        found = json.loads(output)
        answers.statuses, answers.seconds = tuple(found["statuses"]), tuple(found["seconds"])
    finally:
        if probe.returncode is None:
            probe.kill()
            await probe.wait()


async def _ask(address: str) -> None:
    statuses: list[str] = []
    seconds: list[float] = []
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with grpc.aio.insecure_channel(address) as channel:
        await health_status(channel)
        sys.stdout.write("asking\n")
        sys.stdout.flush()
        while not over.done():
            asked = time.monotonic()
            statuses.append(await health_status(channel))
            seconds.append(time.monotonic() - asked)
            await asyncio.sleep(max(0.0, INTERVAL_SECONDS - seconds[-1]))
    sys.stdout.write(json.dumps({"statuses": statuses, "seconds": seconds}))


if __name__ == "__main__":
    asyncio.run(_ask(sys.argv[1]))
