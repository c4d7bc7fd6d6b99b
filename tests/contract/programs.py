"""Runs other programs for tests: bounded in time, their output captured, never through a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["run_program"]


def run_program(
    arguments: Sequence[str | Path],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, for 2 minutes at most, without failing: tests look at `returncode` and output.

    `environment` is added to this process's own.
    """
    return subprocess.run(  # the arguments are the tests' own
        [str(argument) for argument in arguments],
        cwd=directory,
        env={**os.environ, **(environment or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
