"""Servers in processes of their own, and what such a process takes."""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

__all__ = [
    "Child",
    "Servers",
    "cpu_seconds",
    "echo_process",
    "forget_peak",
    "peak_resident_bytes",
    "resident_bytes",
    "server_process",
    "socket_folder",
]

_START_SECONDS = 120.0
"""The first start on a machine compiles the kernels."""
_STOP_SECONDS = 10.0
_MAX_TEMPORARY_PATH_BYTES = 60
"""`sockaddr_un` has room for 107 bytes of path, and what follows here takes up to 40."""
_READY = " is ready at "


@dataclass(frozen=True, slots=True)
class Child:
    """A process that answers."""

    address: str
    pid: int


@contextlib.contextmanager
def socket_folder() -> Iterator[Path]:
    """Give a folder for unix sockets that only this user can read, under a path that is short enough for one."""
    is_short = len(tempfile.gettempdir().encode()) <= _MAX_TEMPORARY_PATH_BYTES
    with tempfile.TemporaryDirectory(prefix="monopath-bench-", dir=None if is_short else "/tmp") as folder:  # noqa: S108
        yield Path(folder)


@contextlib.contextmanager
def server_process(address: str) -> Iterator[Child]:
    """Run `monopath serve` with its own defaults. It is gone on every way out."""
    arguments = ("monopath.cli.main", "serve", "--address", address, "--cuda", "off", "--max-stream-age", "0")
    with _process(arguments) as child:
        yield child


class Servers:
    """The servers that sections share, each started when it is first asked for. They are gone when the context ends."""

    def __init__(self, folder: Path) -> None:
        """`folder` takes their sockets."""
        self.folder = folder
        self._stack = contextlib.ExitStack()

    @functools.cached_property
    def over_unix(self) -> Child:
        """At a unix socket. Raises RuntimeError where it does not start."""
        return self._stack.enter_context(server_process(f"unix:{self.folder / 'server'}"))

    @functools.cached_property
    def over_tcp(self) -> Child:
        """At a free port of this host. Raises RuntimeError where it does not start."""
        return self._stack.enter_context(server_process("127.0.0.1:0"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self._stack.close()


@contextlib.contextmanager
def echo_process(address: str) -> Iterator[Child]:
    """Run the echo server. It is gone on every way out."""
    with _process(("monopath_server.bench.echo_server", address)) as child:
        yield child


@contextlib.contextmanager
def _process(module: Sequence[str]) -> Iterator[Child]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MONOPATH_")}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        # In a session of its own: Ctrl-C is for this process, which then ends its children in their turn.
        process = subprocess.Popen(  # noqa: S603 - this interpreter and modules of ours
            [sys.executable, "-m", *module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            start_new_session=True,
        )
        try:
            yield Child(_ready_address(process, module[0], errors), process.pid)
        finally:
            _end(process)


def _ready_address(process: subprocess.Popen[str], name: str, errors: IO[str]) -> str:
    """Wait for the line that says ready. Raises RuntimeError with what the process wrote where none comes."""
    assert process.stdout is not None
    line = ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if selector.select(_START_SECONDS):
            line = process.stdout.readline()
    _, separator, address = line.strip().partition(_READY)
    if not separator:
        errors.seek(0)
        said = errors.read().strip() or "nothing"
        raise RuntimeError(f"Expected {name} to be ready within {_START_SECONDS:.0f} seconds, got: {said}")
    return address


def _end(process: subprocess.Popen[str]) -> None:
    """Ask it to end, and end it where it does not."""
    try:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_SECONDS)
    except BaseException as error:
        process.kill()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
    finally:
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def resident_bytes(pid: int) -> int:
    """Memory that a process has in RAM now, shared memory included."""
    return _status_bytes(pid, "VmRSS")


def peak_resident_bytes(pid: int) -> int:
    """The most memory that a process had in RAM since `forget_peak`."""
    return _status_bytes(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """Let `peak_resident_bytes` begin at what the process has now. Raises OSError where the kernel does not let us."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(pid: int, seconds: float) -> None:
    """Wait until a process has used no processor time for a while, at most so many seconds."""
    deadline = time.monotonic() + seconds
    before = -1.0
    while time.monotonic() < deadline and (now := cpu_seconds(pid)) != before:
        before = now
        time.sleep(0.2)


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise RuntimeError(f"Expected {name} of process {pid}, got none")
