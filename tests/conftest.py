"""Tests marked `cuda` need a CUDA device and compiled kernels; they say in the summary that they were skipped."""

from __future__ import annotations

import functools
import gc

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a GPU: where there is none, and in a run that also has tests for Triton's interpreter.

    Triton is in one mode for a whole process, so `make test-cuda` runs the marked tests alone (`-m cuda`).
    """
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    runs_alone = config.getoption("-m") == "cuda"
    reason = missing_cuda() if runs_alone else "needs a process of its own: make test-cuda"
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of garbage collections, as a server does (`run_server`).

    It stays until the end, and is so much that a full collection of a test that looks for leaks takes half a second.
    """
    gc.collect()
    gc.freeze()


@functools.cache
def missing_cuda() -> str:
    """Why there is no CUDA device; empty where there is one."""
    from monopath_server.transforms.cuda.probe import probe_cuda

    return "; ".join(probe_cuda().missing)
