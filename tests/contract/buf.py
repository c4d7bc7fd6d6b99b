"""Runs the `buf` binary that is installed beside the interpreter (package `buf-bin`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.contract.programs import run_program

__all__ = ["BUF", "PROTOS", "run_buf"]

PROTOS = Path(__file__).resolve().parents[2] / "protos"
BUF = Path(sys.executable).parent / "buf"


def run_buf(*arguments: str, directory: Path = PROTOS) -> subprocess.CompletedProcess[str]:
    """Runs `buf` in a directory, without failing: tests look at `returncode`, `stdout` and `stderr`."""
    return run_program([BUF, *arguments], directory=directory)
