"""The typed config of the Qwen-VL image processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monopath_server.processors.area_bounds import AreaBoundedConfig
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.qwen_vl.geometry import plan_image
from monopath_server.processors.types import Size

__all__ = ["QwenVlConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenVlConfig(AreaBoundedConfig):
    """All that decides the bytes and the token count of an image."""

    family: ClassVar[str] = "qwen_vl"

    def plan(self, size: Size) -> PatchGridPlan:
        return plan_image(self, size)
