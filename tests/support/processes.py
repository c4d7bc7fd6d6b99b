"""The command line in processes of its own, bounded in time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SOURCE_PATHS", "Finished", "ServerProcess", "run_monopath", "serving", "starting"]

REPOSITORY = Path(__file__).parents[2]
SOURCE_PATHS = os.pathsep.join((str(REPOSITORY / "server"), str(REPOSITORY / "stubs" / "python")))
"""What a process that is to import this checkout has in PYTHONPATH."""
COMMAND = (sys.executable, "-W", "error", "-m", "monopath.cli.main")
START_SECONDS = 90.0
"""The first start on a machine compiles the kernels."""
RUN_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command came to."""

    exit_code: int
    stdout: str
    stderr: str


class ServerProcess:
    """A running `monopath serve`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process = process
        self.address = address
        """Where it listens."""
        self.pid = process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        self._process.send_signal(number)

    def wait(self, timeout_seconds: float = 30.0) -> Finished:
        """Wait for the server's end."""
        stdout, stderr = self._process.communicate(timeout=timeout_seconds)
        return Finished(self._process.returncode, stdout, stderr)

    def stop(self) -> Finished:
        """Send SIGTERM and wait for the server's end."""
        self.send_signal(signal.SIGTERM)
        return self.wait()


def run_monopath(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, timeout_seconds: float = RUN_SECONDS
) -> Finished:
    """Run `monopath` with these arguments until its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=timeout_seconds,
        env=_environment(environment),
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def starting(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start `monopath` with these arguments. It is gone on every way out."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(environment),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextlib.contextmanager
def serving(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """Run `monopath serve` with these arguments, and give it when it is ready. It is gone on every way out.

    Raises RuntimeError with what it wrote where it ends, or takes too long, before it is ready.
    """
    with starting("serve", *arguments, environment=environment) as process:
        yield ServerProcess(process, _wait_until_ready(process))


def _wait_until_ready(process: subprocess.Popen[str]) -> str:
    """Return the address from the line that says ready."""
    assert process.stdout is not None
    deadline = threading.Timer(START_SECONDS, process.kill)
    deadline.start()
    try:
        line = process.stdout.readline()
    finally:
        deadline.cancel()
        deadline.join()
    _, separator, address = line.strip().partition(" is ready at ")
    if not separator:
        process.kill()
        _, stderr = process.communicate()
        raise RuntimeError(f"Expected a line with the server's address, got {line!r} and on stderr: {stderr}")
    return address


def _environment(changes: Mapping[str, str] | None) -> dict[str, str]:
    """Return this process's environment without settings that would change what a command does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MONOPATH_")}
    return {**kept, "PYTHONPATH": SOURCE_PATHS, "COLUMNS": "80", **(changes or {})}
