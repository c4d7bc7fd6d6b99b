"""The typed config of the CLIP and the SigLIP image processor, which differ in numbers alone."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from monopath_server.faults import ConfigViolation
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.backends import BackendConfig
from monopath_server.processors.family import CanonicalForm
from monopath_server.processors.fixed_size.geometry import ExactResize, Resize, ShortestEdgeResize, plan_image
from monopath_server.processors.plans import FixedSizePlan
from monopath_server.processors.ranges import outside, wrong_constants
from monopath_server.processors.types import ResampleFilter, RowLayout, Size

__all__ = ["FixedSizeConfig"]

MAX_SIDE_PX = 2_048
MAX_EDGE_PX = 4_096
MAX_PATCH_SIZE = 64
MAX_CLASS_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSizeConfig(BackendConfig):
    """All that decides the bytes and the token count of an image. Names are those of `preprocessor_config.json`."""

    family: ClassVar[str] = "fixed_size"

    resize: Resize
    """`size`."""
    crop_size: Size | None
    """What is cut from the middle of the resized image; zeros surround an image that is smaller. None: nothing is cut,
    which needs an exact resize."""
    resample_filter: ResampleFilter = ResampleFilter.BICUBIC
    """`resample`."""
    patch_size: int | None = None
    """Side of the encoder's patches in pixels; it decides token counts alone. None: not known, nor is a token count."""
    class_token_count: int = 0
    """Tokens that the encoder has besides those of its patches."""

    @property
    def output_size(self) -> Size:
        """The size that every image gets. Only of a config without violations."""
        if self.crop_size is not None:
            return self.crop_size
        if isinstance(self.resize, ExactResize):
            return Size(self.resize.width, self.resize.height)
        raise ValueError("Expected a crop, or both sides of the resize, got neither")

    @functools.cached_property
    def arithmetic(self) -> PixelArithmetic:
        size = self.output_size
        return self._backend_arithmetic(RowLayout(size.height_px, size.width_px), self.resample_filter)

    def plan(self, size: Size) -> FixedSizePlan:
        return plan_image(self, size)

    def violations(self) -> tuple[ConfigViolation, ...]:
        return tuple(self._violations())

    def canonical_form(self) -> CanonicalForm:
        size = self.output_size
        return {
            "resize": dataclasses.asdict(self.resize),
            "output_size": [size.height_px, size.width_px],
            "resample_filter": self.resample_filter.value,
            "patch_size": self.patch_size,
            # Where no token count is known, there is none to add to.
            "class_token_count": None if self.patch_size is None else self.class_token_count,
            **self._backend_form(),
        }

    def _violations(self) -> Iterator[ConfigViolation]:
        match self.resize:
            case ShortestEdgeResize(shortest_edge, longest_edge):
                yield from outside("shortest_edge.length_px", shortest_edge, 1, MAX_EDGE_PX)
                if longest_edge is not None:
                    yield from outside("shortest_edge.longest_edge_px", longest_edge, shortest_edge, MAX_EDGE_PX)
                if self.crop_size is None:
                    yield ConfigViolation(
                        "crop_size", "Expected a crop, without which images would have sizes of their own, got none"
                    )
            case ExactResize(height, width):
                yield from outside("exact_size.height_px", height, 1, MAX_SIDE_PX)
                yield from outside("exact_size.width_px", width, 1, MAX_SIDE_PX)
        if self.crop_size is not None:
            yield from outside("crop_size.height_px", self.crop_size.height_px, 1, MAX_SIDE_PX)
            yield from outside("crop_size.width_px", self.crop_size.width_px, 1, MAX_SIDE_PX)
        if self.patch_size is not None:
            yield from outside("patch_size", self.patch_size, 1, MAX_PATCH_SIZE)
        yield from outside("class_token_count", self.class_token_count, 0, MAX_CLASS_TOKENS)
        yield from wrong_constants(self.image_mean, self.image_std)
