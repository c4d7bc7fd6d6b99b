"""Run by a test: makes a transform and prints whether its kernel came from numba's cache on disk."""

from __future__ import annotations

import sys

from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType
from monopath_server.transforms.cpu.kernel import run_kernel
from monopath_server.transforms.cpu.transform import CpuTransform

__all__: list[str] = []

if __name__ == "__main__":
    for element_type in ElementType:
        CpuTransform(PRESETS["kimi-k3"], element_type).warm_up()
    loaded = sum(run_kernel.stats.cache_hits.values())
    compiled = sum(run_kernel.stats.cache_misses.values())
    sys.stdout.write(f"{loaded} loaded, {compiled} compiled\n")
