"""The typed config of the Qwen-VL image processor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from monopath_server.faults import ConfigViolation
from monopath_server.processors.family import CanonicalForm
from monopath_server.processors.qwen_vl.geometry import plan_image
from monopath_server.processors.ranges import outside
from monopath_server.processors.types import ImagePlan, Size
from monopath_server.processors.windowed import WindowedConfig

__all__ = ["MAX_AREA_PX", "QwenVlConfig"]

MAX_AREA_PX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenVlConfig(WindowedConfig):
    """All that decides the bytes and the token count of an image."""

    family: ClassVar[str] = "qwen_vl"

    min_pixels: int
    """Smallest area of a resized image; smaller ones are enlarged. `size.shortest_edge` in later files."""
    max_pixels: int
    """Largest area of a resized image; larger ones are shrunk. `size.longest_edge` in later files."""

    def plan(self, size: Size) -> ImagePlan:
        return plan_image(self, size)

    def _own_violations(self) -> Iterator[ConfigViolation]:
        yield from outside("min_pixels", self.min_pixels, 1, MAX_AREA_PX)
        yield from outside("max_pixels", self.max_pixels, 1, MAX_AREA_PX)

    def _own_form(self) -> CanonicalForm:
        return {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
