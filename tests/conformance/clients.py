"""The clients of the suite: programs that are started once and asked line by line, and `buf curl`."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, assert_never

from tests.conformance.outcomes import ReplyInvalid, Skipped, read_reply
from tests.contract.buf_curl import run_vector_with_buf
from tests.contract.vector_cases import Vector
from tests.contract.vector_matching import Outcome

__all__ = ["BUF", "PYTHON", "Client", "ClientKind", "Program", "opened"]

REPOSITORY = Path(__file__).resolve().parents[2]
ANSWER_SECONDS = 75.0
"""A program bounds its jobs to 60 s itself."""
_STOP_SECONDS = 15.0


class Client(Protocol):
    """Runs vectors."""

    def run(self, vector: Vector, address: str) -> Outcome | Skipped:
        """Run a vector against a server. Raises ReplyInvalid for a client that does not answer as it should."""


@dataclass(frozen=True, slots=True)
class Program:
    """How a conformance program is started."""

    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What is added to this process's own."""


@dataclass(frozen=True, slots=True)
class ClientKind:
    """A row of the table."""

    name: str
    """Such as "Python asyncio"."""
    program: Program | None
    """None: `buf curl`, which is started anew for each vector."""


def _python(module: str, *arguments: str) -> Program:
    return Program((sys.executable, "-W", "error", "-m", f"tests.conformance.programs.{module}", *arguments))


PYTHON = (
    ClientKind("Python", _python("typed", "inline")),
    ClientKind("Python asyncio", _python("typed_asyncio", "inline")),
    ClientKind("Python, shared memory", _python("typed", "shared_memory")),
    ClientKind("Python stubs", _python("stubs")),
    ClientKind("Python stubs asyncio", _python("stubs_asyncio")),
)
BUF = ClientKind("buf curl", None)


@contextlib.contextmanager
def opened(kind: ClientKind) -> Iterator[Client]:
    """Give a client of this kind. Its program is gone on every way out."""
    if kind.program is None:
        yield _BufClient()
        return
    client = _ProgramClient(kind.program)
    try:
        yield client
    except BaseException:
        client.stop()
        raise
    client.finish()


class _BufClient:
    def run(self, vector: Vector, address: str) -> Outcome | Skipped:
        if not vector.is_json:
            return Skipped("buf curl sends JSON only")
        return run_vector_with_buf(vector, address)


class _ProgramClient:
    """A program that is started with the first vector, and again after one that it did not survive."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._running: _Running | None = None

    def run(self, vector: Vector, address: str) -> Outcome | Skipped:
        if self._running is None:
            self._running = _Running(self._program)
        job = json.dumps({"address": address, "vector": vector.job()})
        try:
            line = self._running.ask(job)
            reply = read_reply(vector, line)
        except ReplyInvalid:
            # Whatever else it had to say would be taken for the answer to the next job.
            self.stop()
            raise
        match reply:
            case Outcome() | Skipped():
                return reply
            case _:
                assert_never(reply)

    def finish(self) -> None:
        """End the input, upon which the program ends by itself. Raises ReplyInvalid where it does not, or says more."""
        if self._running is not None:
            running, self._running = self._running, None
            running.finish()

    def stop(self) -> None:
        """End the program now."""
        if self._running is not None:
            self._running.kill()
            self._running = None


class _Running:
    def __init__(self, program: Program) -> None:
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed where the process is gone
        try:
            self._process = subprocess.Popen(
                [str(part) for part in program.command],
                cwd=REPOSITORY,
                env={**os.environ, **program.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            self._stderr.close()
            raise ReplyInvalid(f"Expected a program that can be started, got {error}") from error
        assert self._process.stdout is not None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def ask(self, job: str) -> str:
        """Write a job and return the line that answers it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ReplyInvalid(f"Expected a program that reads jobs, got one that ended: {self._said()}") from error
        try:
            line = self._lines.get(timeout=ANSWER_SECONDS)
        except queue.Empty as error:
            raise ReplyInvalid(f"Expected an answer within {ANSWER_SECONDS:.0f} s, got none") from error
        if not line:
            raise ReplyInvalid(f"Expected an answer, got the program's end: {self._said()}")
        return line

    def finish(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            exit_code = self._process.wait(_STOP_SECONDS)
            self._reader.join()
            rest = self._lines.get_nowait()
        except subprocess.TimeoutExpired as error:
            raise ReplyInvalid("Expected the program to end with its input, it runs on") from error
        finally:
            self.kill()
        if exit_code or rest:
            raise ReplyInvalid(f"Expected exit code 0 and no more output, got {exit_code} and {rest[:200]!r}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            assert stream is not None
            # What was not flushed to a program that is gone is lost anyway.
            with contextlib.suppress(OSError):
                stream.close()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line)
        self._lines.put("")

    def _said(self) -> str:
        """The end of what the program wrote to stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self._stderr.seek(0)
        return f"exit code {self._process.returncode}, {self._stderr.read()[-1000:]!r}"
