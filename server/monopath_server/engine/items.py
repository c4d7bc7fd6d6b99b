"""Items, plans and features as the engines see them. Plain values; the session makes them from messages and back."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from monopath_server.engine.rows import Holding
from monopath_server.media.pixels import PixelFormat
from monopath_server.processors.types import ImagePlan, ResampleKernel

__all__ = [
    "CacheOutcome",
    "EncodedSource",
    "Features",
    "ImageItem",
    "PixelsSource",
    "Provenance",
    "Route",
    "Timings",
]


@dataclass(frozen=True, slots=True)
class EncodedSource:
    """An image file."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class PixelsSource:
    """Raw pixels: `height_px` lines of `width_px` pixels, uint8 channels interleaved, no gaps."""

    data: bytes
    width_px: int
    height_px: int
    format: PixelFormat

    @property
    def size_bytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class ImageItem:
    """An image that this server turns into features."""

    id: int
    label: str
    source: EncodedSource | PixelsSource
    expected_sha256: bytes
    """SHA-256 that the source's bytes must have; empty: not checked."""

    @property
    def size_bytes(self) -> int:
        return self.source.size_bytes


class Route(enum.StrEnum):
    """Where pixels were resized and converted: `monopath.v1.Route` without its prefix."""

    CLIENT = enum.auto()
    HOST = enum.auto()
    HOST_PILLOW = enum.auto()
    DEVICE = enum.auto()


class CacheOutcome(enum.StrEnum):
    """What the cache had to do with features: `monopath.v1.CacheOutcome` without its prefix."""

    BYPASSED = enum.auto()
    MISS = enum.auto()
    HIT = enum.auto()
    JOINED = enum.auto()


@dataclass(frozen=True, slots=True)
class Provenance:
    """From what and by what features were made."""

    config_sha256: bytes
    content_sha256: bytes
    resample_kernel: ResampleKernel | None
    route: Route


@dataclass(frozen=True, slots=True)
class Timings:
    """Nanoseconds that an item spent in each stage."""

    planning_ns: int = 0
    queued_ns: int = 0
    decoding_ns: int = 0
    transforming_ns: int = 0


@dataclass(frozen=True, slots=True)
class Features:
    """Finished features. Who has them releases `holding` once they are delivered, or dropped."""

    holding: Holding
    """`pixel_values` in the stream's element type, row-major, little-endian."""
    plan: ImagePlan
    provenance: Provenance
    timings: Timings
    cache: CacheOutcome = CacheOutcome.BYPASSED
