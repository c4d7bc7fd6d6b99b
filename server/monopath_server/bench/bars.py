"""The bars that the project set itself, for a machine of two cores. They are printed beside the figures."""

from __future__ import annotations

from monopath_server.bench.sheet import AtLeast, AtMost
from monopath_server.processors.types import ImagePlan

__all__ = [
    "ADDED_LATENCY_MS",
    "INLINE_OVER_IN_PROCESS",
    "OVER_REFERENCE",
    "SHARED_MEMORY_OVER_IN_PROCESS",
    "SIXTEEN_OVER_FOUR_STREAMS",
    "TWO_THREADS_OVER_ONE",
    "over_floor",
]

OVER_REFERENCE = AtMost(0.25)
TWO_THREADS_OVER_ONE = AtLeast(1.85)
SHARED_MEMORY_OVER_IN_PROCESS = AtLeast(0.90)
INLINE_OVER_IN_PROCESS = AtLeast(0.75)
SIXTEEN_OVER_FOUR_STREAMS = AtLeast(0.95)
ADDED_LATENCY_MS = AtMost(3.0)

_RESIZED_OVER_FLOOR = AtMost(0.45)
_COPIED_OVER_FLOOR = AtMost(1.25)
_SMALLEST_COPIED_PIXELS = 1024 * 1024
"""Of a smaller image that is not resized the floor is so short that calls alone exceed it: there is no bar."""


def over_floor(plan: ImagePlan) -> AtMost | None:
    """The bar of whole over floor; None where there is none."""
    if plan.resized_size != plan.original_size:
        return _RESIZED_OVER_FLOOR
    pixel_count = plan.original_size.width_px * plan.original_size.height_px
    return _COPIED_OVER_FLOOR if pixel_count >= _SMALLEST_COPIED_PIXELS else None
