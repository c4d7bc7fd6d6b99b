"""Shared memory and descriptors."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from monopath_server.diagnosis.finding import Finding, Findings, Level, size_text
from monopath_server.settings import Settings

__all__ = ["descriptor_findings", "shared_memory_findings"]

_ENOUGH_DESCRIPTORS = 4096
_IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")


def shared_memory_findings(settings: Settings, process_count: int, root: Path = Path("/")) -> Findings:
    """Hold the folder of shared memory against the settings."""
    folder = settings.shared_memory_directory
    if settings.max_shared_memory_bytes == 0:
        yield Finding("shared memory", Level.OK, "switched off (--max-shared-memory-bytes 0)")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        advice = "A folder in memory that can be written to (--shared-memory-dir); without it features go in messages"
        yield Finding("shared memory", Level.WARNING, f"{folder} cannot be written to", advice)
        return
    facts = os.statvfs(folder)
    size_bytes, free_bytes = facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize
    wanted_bytes = settings.max_shared_memory_bytes * process_count
    found = (
        f"{folder}: {size_text(size_bytes)}, {size_text(free_bytes)} free; the settings allow {size_text(wanted_bytes)}"
    )
    kind = _file_system(folder.resolve(), root)
    if kind is not None and kind not in _IN_MEMORY:
        yield Finding("shared memory", Level.WARNING, f"{found}; on {kind}", "A folder in memory: tmpfs, not a disk")
    elif wanted_bytes > free_bytes:
        advice = (
            "What does not fit goes in messages. Docker: --shm-size; Kubernetes: an emptyDir of medium Memory; or less "
            "of --max-shared-memory-bytes, which is that of each process"
        )
        yield Finding("shared memory", Level.WARNING, found, advice)
    else:
        yield Finding("shared memory", Level.OK, found)


def descriptor_findings() -> Findings:
    """Say how many files and connections a process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= _ENOUGH_DESCRIPTORS:
        text = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
        yield Finding("descriptors", Level.OK, f"{text} (ulimit -Hn)")
    else:
        advice = f"{_ENOUGH_DESCRIPTORS} or more: connections and leased features take one each"
        yield Finding("descriptors", Level.WARNING, f"{hard} (ulimit -Hn)", advice)


def _file_system(folder: Path, root: Path) -> str | None:
    """Return the kind of file system that a folder is on."""
    try:
        lines = (root / "proc/self/mounts").read_text().splitlines()
    except OSError:
        return None
    kinds = {Path(fields[1]): fields[2] for line in lines if len(fields := line.split()) > 2}
    return next((kinds[place] for place in (folder, *folder.parents) if place in kinds), None)
