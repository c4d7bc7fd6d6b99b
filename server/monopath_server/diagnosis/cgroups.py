"""What the control group of this process (a container's, a systemd unit's) leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["memory_limit_bytes", "processor_quota"]

_GROUPS = Path("sys/fs/cgroup")


def processor_quota(root: Path) -> float | None:
    """Return how many processors' time the group may use; None without a limit."""
    quotas: list[float] = []
    for folder in _folders(root, "cpu"):
        match _words(folder / "cpu.max"):
            case [quota, period] if quota != "max":
                quotas.append(int(quota) / int(period))
            case _:
                pass
        match _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us"):
            case [quota], [period] if int(quota) > 0:
                quotas.append(int(quota) / int(period))
            case _:
                pass
    return min(quotas, default=None)


def memory_limit_bytes(root: Path) -> int | None:
    """Return how much memory the group may use, shared memory included; None without a limit."""
    limits = [
        int(words[0])
        for folder in _folders(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (words := _words(folder / name)) and words[0] != "max"
    ]
    # Version 1 writes the largest number of pages there is for "no limit".
    return min((limit for limit in limits if limit < 1 << 60), default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the group and of those around it, of both versions, as far as they can be seen."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / _GROUPS / controllers if controllers else root / _GROUPS
        inner = top / group.lstrip("/")
        # In a container the path may be that of the host, and the container's own group lies at the top.
        yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(top) and folder.is_dir())


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
