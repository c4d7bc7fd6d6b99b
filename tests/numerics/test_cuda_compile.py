"""The kernels as machine code of real GPUs, on a machine that has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(400)
def test_no_kernel_for_any_gpu_holds_a_floating_point_or_division_instruction(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in {"TRITON_INTERPRET", "CC"}}
    # Nothing can be found there: making machine code takes no compiler of the host.
    environment["PATH"] = str(tmp_path)
    result = subprocess.run(
        [sys.executable, "-m", "tests.numerics.compile_kernels"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("45 kernels compiled, 0 with a floating-point or division instruction\n")
