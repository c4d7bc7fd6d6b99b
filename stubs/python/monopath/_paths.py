"""The three preprocessing paths, once as values and once as types.

The marker classes are never instantiated. They are type arguments: `Result[DeferredCpu]` and `Result[DeferredCuda]` are
two types, neither of which is accepted for the other, so a type checker refuses to put features of two paths together.
"""

from __future__ import annotations

import enum
from typing import TypeVar, final

__all__ = ["AnyPath", "DeferredCpu", "DeferredCuda", "Local", "PathT", "PreprocessingPath"]


class PreprocessingPath(enum.StrEnum):
    """Who turns pixels into features: `monopath.v1.PreprocessingPath` without its prefix."""

    LOCAL = "LOCAL"
    DEFERRED_CUDA = "DEFERRED_CUDA"
    DEFERRED_CPU = "DEFERRED_CPU"


class AnyPath:
    """What the markers have in common. Not a path itself."""

    def __init__(self) -> None:
        raise TypeError(f"Expected {type(self).__name__} to be used as a type argument, got a call")


@final
class Local(AnyPath):
    """The client finished the features; the server checked, converted and handed them over."""


@final
class DeferredCuda(AnyPath):
    """The server's GPU made the features."""


@final
class DeferredCpu(AnyPath):
    """The server's CPU made the features."""


PathT = TypeVar("PathT", bound=AnyPath)
"""Invariant on purpose: a container of one path's results is no container of another's."""
