"""What the adapters for engines have in common: which results go together, and how a family's features look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np
import numpy.typing as npt

from monopath._paths import PathT
from monopath._results import Result, one_batch

if TYPE_CHECKING:
    import torch

    from monopath._records import FeatureArray, Ready
    from monopath.v1 import config_pb2

__all__ = ["EngineBatch", "FeatureLayout", "engine_batch", "feature_layout"]


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """How a family's own processor, and so its model in an engine, calls and shapes what it takes."""

    grid_key: str
    """The argument that has the patch grids."""
    has_frames: bool
    """A grid is frames, rows, columns. Else rows, columns."""
    has_flat_rows: bool
    """A patch is one vector. Else [channels, height, width]."""
    keeps_grid_on_cpu: bool = True
    """vLLM's model reads the grids on the host."""


_LAYOUTS = {
    "kimi": FeatureLayout("grid_thws", has_frames=True, has_flat_rows=False),
    "kimi_vl": FeatureLayout("image_grid_hws", has_frames=False, has_flat_rows=False, keeps_grid_on_cpu=False),
    "qwen_vl": FeatureLayout("image_grid_thw", has_frames=True, has_flat_rows=True),
    "glm_vl": FeatureLayout("image_grid_thw", has_frames=True, has_flat_rows=True),
    "glm_next": FeatureLayout("image_grid_thw", has_frames=True, has_flat_rows=True),
}
"""By the arm of `ProcessorConfig.source`."""


def feature_layout(processor: config_pb2.ProcessorConfig) -> FeatureLayout:
    """Return the layout of a config that `ready` has told. Raises ValueError for a family that is not known here."""
    family = processor.WhichOneof("source")
    layout = None if family is None else _LAYOUTS.get(family)
    if layout is None:
        raise ValueError(f"Expected a processor of {', '.join(_LAYOUTS)}, got {family or 'none'}")
    return layout


@dataclass(frozen=True, slots=True, eq=False)
class EngineBatch(Generic[PathT]):
    """Results that go to an engine together."""

    results: tuple[Result[PathT], ...]
    layout: FeatureLayout

    @property
    def patch_counts(self) -> tuple[int, ...]:
        """Rows of each image's features."""
        return tuple(result.plan.shape[0] for result in self.results)

    def grids(self) -> npt.NDArray[np.int64]:
        """Return the patch grid of each image, int64 [images, 3 or 2]."""
        grids = [result.plan.patch_grid for result in self.results]
        thw = np.array([(grid.t, grid.h, grid.w) for grid in grids], dtype=np.int64)
        return thw if self.layout.has_frames else np.ascontiguousarray(thw[:, 1:])

    def array(self, result: Result[PathT]) -> FeatureArray:
        """Return one image's features as the family's model takes them, without a copy."""
        array = result.array
        return array.reshape(len(array), -1) if self.layout.has_flat_rows else array

    def tensor(self, result: Result[PathT]) -> torch.Tensor:
        """Return the same as a tensor, on a GPU where the features are there. Raises ImportError without torch."""
        tensor = result.torch()
        return tensor.flatten(1) if self.layout.has_flat_rows else tensor


def engine_batch(results: Iterable[Result[PathT]], ready: Ready) -> EngineBatch[PathT]:
    """Put results of one stream, or fleet, together. `ready` is its opening.

    Raises what `one_batch` raises, and ValueError for results of another config than `ready`'s, or of a family that is
    not known here.
    """
    ordered = one_batch(results)
    config_sha256 = ordered[0].provenance.config_sha256
    if config_sha256 != ready.config_sha256:
        raise ValueError(
            f"Expected results of the config {ready.config_sha256.hex()[:12]}, got some of {config_sha256.hex()[:12]}"
        )
    return EngineBatch(ordered, feature_layout(ready.processor))
