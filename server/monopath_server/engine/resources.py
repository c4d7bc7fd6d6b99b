"""What all engines of a server share."""

from __future__ import annotations

from dataclasses import dataclass

from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.workers import Workers
from monopath_server.media.limits import ImageLimits

__all__ = ["Resources"]


@dataclass(frozen=True, slots=True)
class Resources:
    """Threads, memory and limits, one set for a server."""

    workers: Workers
    buffers: BufferPool
    """Where all features and received bytes live."""
    limits: ImageLimits
    max_feature_bytes: int
    """Bytes of one item's features."""
