"""What a server holds: memory, threads, tasks, file descriptors, budgets; so that a test can see what stays behind."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from monopath_server.app import Server
from monopath_server.engine.budget import Load

__all__ = [
    "Footprint",
    "cpu_seconds",
    "footprint",
    "forget_peak",
    "peak_rss_bytes",
    "rss_bytes",
    "settle",
    "until",
    "use_few_heaps",
]

SETTLE_SECONDS = 30.0
_C_LIBRARY = ctypes.CDLL(None)
_M_ARENA_MAX = -8


@dataclass(frozen=True, slots=True)
class Footprint:
    """What this process and a server in it hold at one moment."""

    rss_bytes: int
    thread_count: int
    task_count: int
    """Tasks of this event loop."""
    descriptor_count: int
    stream_count: int
    peer_count: int
    """Clients that something is counted of."""
    held_bytes: int
    """Bytes of pooled buffers and segments that are not released."""
    lease_count: int
    """Features that clients were told of and have not released."""
    unfinished: Load
    """What the process's budget counts."""

    @property
    def is_idle(self) -> bool:
        """No stream is open, and nothing of any item is held."""
        counts = (self.stream_count, self.peer_count, self.held_bytes, self.lease_count)
        return not any(counts) and self.unfinished == Load()


def footprint(server: Server) -> Footprint:
    """Measure, after what nobody refers to was collected and the C library gave back what it had free."""
    gc.collect()
    _C_LIBRARY.malloc_trim(0)
    memory = server.engines.shared_memory
    return Footprint(
        rss_bytes=rss_bytes(os.getpid()),
        thread_count=_entry_count("/proc/self/task"),
        task_count=len(asyncio.all_tasks()),
        descriptor_count=_entry_count("/proc/self/fd"),
        stream_count=len(server._servicer._sessions),
        peer_count=len(server._servicer._peers),
        held_bytes=server.engines.buffers.held_bytes + (0 if memory is None else memory.pool.held_bytes),
        lease_count=server.engines.lease_count,
        unfinished=server._servicer._budget.used,
    )


async def settle(server: Server, *, before: Footprint | None = None) -> Footprint:
    """Wait, within a bound, until the server is idle and as many tasks, threads and descriptors are left as before.

    Returns the last measurement, also where the bound was reached: the caller asserts.
    """

    def is_settled(found: Footprint) -> bool:
        return found.is_idle and (
            before is None
            or (
                found.task_count <= before.task_count
                and found.thread_count <= before.thread_count
                and found.descriptor_count <= before.descriptor_count
            )
        )

    deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
    found = footprint(server)
    while not is_settled(found) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.02)
        found = footprint(server)
    return found


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for what has no event, within a bound. Raises AssertionError that says what did not come."""
    deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"Expected {what} within {SETTLE_SECONDS:g} seconds"
        await asyncio.sleep(0.01)


def use_few_heaps() -> None:
    """Let the C library serve all threads from two heaps, before there are any: holes in many heaps look like leaks."""
    _C_LIBRARY.mallopt(_M_ARENA_MAX, 2)


def rss_bytes(pid: int) -> int:
    """Memory that a process has in RAM now."""
    return _memory(pid, "VmRSS")


def peak_rss_bytes(pid: int) -> int:
    """The most memory that a process had in RAM since its start, or since `forget_peak`."""
    return _memory(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """Let `peak_rss_bytes` begin at what the process has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _entry_count(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def _memory(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"Expected {name} of process {pid}, got none")
