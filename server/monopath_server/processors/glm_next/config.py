"""The typed config of the GLM5-Next image processor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from monopath_server.faults import ConfigViolation
from monopath_server.processors.family import CanonicalForm
from monopath_server.processors.glm_next.geometry import plan_image
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.ranges import outside
from monopath_server.processors.types import Size
from monopath_server.processors.windowed import WindowedConfig

__all__ = ["GlmNextConfig"]

MAX_EXPAND_FACTOR = 16
MAX_IMAGE_TOKENS = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class GlmNextConfig(WindowedConfig):
    """All that decides the bytes and the token count of an image."""

    family: ClassVar[str] = "glm_next"

    min_image_tokens: int
    """Fewest tokens of an image; smaller ones are enlarged."""
    max_image_tokens: int
    """Most tokens of an image; larger ones are shrunk."""
    patch_expand_factor: int = 1
    """Windows a side that a canvas is a multiple of; the PIL backend, and so the Pillow kernels, ignore it."""

    def plan(self, size: Size) -> PatchGridPlan:
        return plan_image(self, size)

    def _own_violations(self) -> Iterator[ConfigViolation]:
        yield from outside("patch_expand_factor", self.patch_expand_factor, 1, MAX_EXPAND_FACTOR)
        yield from outside("min_image_tokens", self.min_image_tokens, 1, MAX_IMAGE_TOKENS)
        yield from outside("max_image_tokens", self.max_image_tokens, 1, MAX_IMAGE_TOKENS)

    def _own_form(self) -> CanonicalForm:
        return {
            "patch_expand_factor": self.patch_expand_factor,
            "min_image_tokens": self.min_image_tokens,
            "max_image_tokens": self.max_image_tokens,
        }
