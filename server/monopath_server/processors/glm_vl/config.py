"""The typed config of the GLM-4.xV image processor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from monopath_server.faults import ConfigViolation
from monopath_server.processors.family import CanonicalForm
from monopath_server.processors.glm_vl.geometry import plan_image
from monopath_server.processors.ranges import outside
from monopath_server.processors.types import ImagePlan, Size
from monopath_server.processors.windowed import WindowedConfig

__all__ = ["MAX_AREA_PX", "GlmVlConfig"]

MAX_AREA_PX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GlmVlConfig(WindowedConfig):
    """All that decides the bytes and the token count of an image."""

    family: ClassVar[str] = "glm_vl"

    min_pixels: int
    """Smallest area of all frames of a row together; `size.shortest_edge` in the file."""
    max_pixels: int
    """Largest area of all frames of a row together; `size.longest_edge` in the file."""

    def plan(self, size: Size) -> ImagePlan:
        return plan_image(self, size)

    def _own_violations(self) -> Iterator[ConfigViolation]:
        yield from outside("min_pixels", self.min_pixels, 1, MAX_AREA_PX)
        yield from outside("max_pixels", self.max_pixels, 1, MAX_AREA_PX)

    def _own_form(self) -> CanonicalForm:
        return {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
