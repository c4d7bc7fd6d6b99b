"""The processors, and the memory, that a server would have."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from monopath_server.diagnosis.cgroups import memory_limit_bytes, processor_quota
from monopath_server.diagnosis.finding import Finding, Findings, Level, size_text
from monopath_server.settings import Settings

__all__ = ["PROCESSOR_FLAGS", "memory_findings", "processor_findings", "processor_model"]

PROCESSOR_FLAGS = ("sse4_1", "avx2", "fma", "avx512f", "avx512bw", "sha_ni", "asimd", "sha2")
"""What makes the CPU path, or SHA-256, faster."""
_X86 = ("x86_64", "AMD64")
_PROCESS_BYTES = 300 << 20
"""What a server takes before it has any image."""


def processor_model(root: Path = Path("/")) -> tuple[str, frozenset[str]]:
    """Return the processor's name and its features as Linux names them."""
    model, flags = platform.processor() or platform.machine(), frozenset[str]()
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return model, flags
    for line in lines:
        key, _, value = line.partition(":")
        match key.strip():
            case "model name":
                model = value.strip()
            case "flags" | "Features":
                flags = frozenset(value.split())
            case _:
                pass
    return model, flags


def processor_findings(settings: Settings, process_count: int, root: Path = Path("/")) -> Findings:
    """Say which processor there is and how many of its cores."""
    model, flags = processor_model(root)
    known = [flag for flag in PROCESSOR_FLAGS if flag in flags]
    if platform.machine() in _X86 and flags and "avx2" not in flags:
        yield Finding(
            "processor",
            Level.WARNING,
            f"{model} ({', '.join(known)})",
            "Without AVX2 the CPU path is slower",
        )
    else:
        yield Finding("processor", Level.OK, f"{model} ({', '.join(known) or 'no features known'})")
    usable, total = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    quota = processor_quota(root)
    thread_count = settings.worker_count * process_count
    found = f"{usable} of {total}; workers: {thread_count}" + (f"; time of {quota:g}" if quota is not None else "")
    if quota is not None and thread_count > quota + 0.5:
        each = max(1, int(quota / process_count))
        advice = f"More threads than the time they get are stopped in turns: --workers {each}, or a larger quota"
        yield Finding("cores", Level.WARNING, found, advice)
    elif thread_count > 2 * usable:
        yield Finding("cores", Level.WARNING, found, f"--workers {max(1, usable // process_count)}")
    else:
        yield Finding("cores", Level.OK, found)


def memory_findings(settings: Settings, process_count: int, root: Path = Path("/")) -> Findings:
    """Hold what the settings allow against what there is."""
    total_bytes = _total_bytes(root)
    limit_bytes = memory_limit_bytes(root)
    bounds = [size for size in (total_bytes, limit_bytes) if size is not None]
    if not bounds:
        return
    allowed_bytes = process_count * (
        _PROCESS_BYTES
        + settings.max_process_bytes
        + settings.idle_buffer_bytes
        + settings.cache_bytes
        + settings.max_shared_memory_bytes
    )
    limited = f", limited to {size_text(limit_bytes)}" if limit_bytes is not None else ""
    have = f"{size_text(total_bytes)}{limited}" if total_bytes is not None else f"limited to {size_text(bounds[0])}"
    found = f"{have}; the settings allow {size_text(allowed_bytes)}"
    if allowed_bytes > min(bounds):
        advice = (
            "More memory, or less of --max-process-bytes, --idle-buffer-bytes, --cache-bytes and "
            "--max-shared-memory-bytes, which are those of each process"
        )
        yield Finding("memory", Level.WARNING, found, advice)
    else:
        yield Finding("memory", Level.OK, found)


def _total_bytes(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key == "MemTotal":
            return int(value.split()[0]) * 1024
    return None
