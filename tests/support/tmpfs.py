"""Directories in memory with a size of their own: what a container with a small /dev/shm sees."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["mounted_tmpfs"]


@contextmanager
def mounted_tmpfs(parent: Path, size: str) -> Iterator[Path]:
    """A fresh tmpfs below `parent`, unmounted on every way out. Skips the test where mounting is not permitted."""
    directory = parent / "tmpfs"
    directory.mkdir()
    options = f"size={size},mode=1777"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "monopath-test", directory], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"mounting a tmpfs is not permitted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        # Lazily: what is still mapped keeps its memory, and nothing else.
        subprocess.run(["umount", "--lazy", directory], check=True, capture_output=True)
