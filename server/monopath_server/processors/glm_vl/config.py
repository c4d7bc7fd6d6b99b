"""The typed config of the GLM-4.xV image processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monopath_server.processors.area_bounds import AreaBoundedConfig
from monopath_server.processors.glm_vl.geometry import plan_image
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import Size

__all__ = ["GlmVlConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlmVlConfig(AreaBoundedConfig):
    """All that decides the bytes and the token count of an image. Its bounds hold for all frames of a row together."""

    family: ClassVar[str] = "glm_vl"

    def plan(self, size: Size) -> PatchGridPlan:
        return plan_image(self, size)
