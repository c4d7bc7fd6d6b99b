"""A deployment of the encoder example: its processes, and an operator's supervisor that starts each anew that dies."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import COMMAND, REPOSITORY, SOURCE_PATHS

__all__ = ["PRESET", "Deployment", "Supervised", "deployment"]

PRESET = "kimi-k3"
START_SECONDS = 150.0
STOP_SECONDS = 30.0
_EXAMPLE = (sys.executable, "-W", "error", "-m", "examples.encoder")


class Supervised:
    """A process that is started again whenever it ends before it was told to."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.exit_codes: list[int] = []
        """What it ended with, each time."""
        self._command = command
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        self._watch = asyncio.create_task(self._keep_running())
        await self.until_ready()

    async def until_ready(self) -> None:
        """Wait until it is ready. Raises TimeoutError with what it wrote where that takes too long."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            raise TimeoutError(f"{self.name} is not ready: {self.errors()}") from None

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self._process is not None
        self._ready.clear()
        self._process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        """End it with SIGTERM, for good."""
        if self._watch is None:
            return
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                self.exit_codes.append(await process.wait())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise

    def errors(self) -> str:
        """What it wrote to stderr, in all its lives."""
        return self._log.read_text()

    async def _keep_running(self) -> None:
        while True:
            with self._log.open("ab") as log:
                process = self._process = await asyncio.create_subprocess_exec(
                    *map(str, self._command),
                    cwd=REPOSITORY,
                    env={"PYTHONPATH": SOURCE_PATHS, "PATH": "", "HOME": str(Path.home())},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                )
            assert process.stdout is not None
            if b" is ready at " in await process.stdout.readline():
                self._ready.set()
            self.exit_codes.append(await process.wait())
            self._ready.clear()


@dataclass(frozen=True, slots=True)
class Deployment:
    """The processes by name, and where to ask."""

    processes: dict[str, Supervised]
    preprocessing: str
    ranks: tuple[str, ...]
    """Addresses of the data-parallel ranks that share a request."""
    single: str
    """Address of a rank on its own, without a cache and over messages, against which the others are held."""
    gateway: str

    def errors(self) -> str:
        """What all processes wrote to stderr."""
        return "".join(process.errors() for process in self.processes.values())


@contextlib.asynccontextmanager
async def deployment(folder: Path, *, rank_count: int = 2, cache_bytes: int = 24 << 10) -> AsyncIterator[Deployment]:
    """Run a preprocessing server, ranks, a single rank and a gateway, all at sockets in `folder`.

    `cache_bytes` is each rank's: by default so little that it holds some of a request's images, and not the others.
    """
    shared_memory = folder / "shm"
    shared_memory.mkdir()

    def address(name: str) -> str:
        return f"unix:{folder / name}"

    names = [f"rank-{rank}" for rank in range(rank_count)]
    ranks = tuple(map(address, names))
    server = (*COMMAND, "serve", "--address", address("server"), "--cuda", "off", "--shared-memory-dir", shared_memory)
    common = ("--preprocessing", address("server"), "--preset", PRESET)
    worker = (*_EXAMPLE, "worker", *common, "--shared-memory-dir", shared_memory)
    all_ranks = [part for rank in ranks for part in ("--worker", rank)]
    commands: dict[str, Sequence[str | Path]] = {"server": server}
    for number, name in enumerate(names):
        commands[name] = (*worker, *all_ranks, "--rank", str(number), "--cache-bytes", str(cache_bytes))
    # Features that came another way are held against these.
    commands["single"] = (*worker, "--worker", address("single"), "--cache-bytes", "0", "--transport", "inline")
    commands["gateway"] = (*_EXAMPLE, "gateway", *common, *all_ranks, "--address", address("gateway"))
    processes = {name: Supervised(name, command, folder / f"{name}.log") for name, command in commands.items()}
    try:
        await asyncio.gather(*(process.start() for process in processes.values()))
        yield Deployment(processes, address("server"), ranks, address("single"), address("gateway"))
    finally:
        await asyncio.gather(*(process.stop() for name, process in processes.items() if name != "server"))
        await processes["server"].stop()
