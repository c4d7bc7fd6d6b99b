"""Which reference a checkpoint has, told from its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from monopath_server.reference.backends import without_backend
from monopath_server.reference.config import ReferenceConfig
from monopath_server.reference.fixed_size import FIXED_SIZE_TYPES, FixedSizeReference
from monopath_server.reference.geometry import ReferencePlan, kimi_plan
from monopath_server.reference.intern_vl import InternVlReference
from monopath_server.reference.kimi_vl import KimiVlReference
from monopath_server.reference.windowed import WINDOWED_TYPES, WindowedReference

__all__ = ["AnyReference", "GridReference", "reference_config", "reference_plan"]

GridReference: TypeAlias = ReferenceConfig | WindowedReference | KimiVlReference
"""Those whose rows of features are patches of a grid."""
AnyReference: TypeAlias = GridReference | FixedSizeReference | InternVlReference


def reference_config(
    checkpoint: Mapping[str, Any], resample_kernel: str, orientation: str = "KEEP", alpha: str = "DROP"
) -> AnyReference:
    """Reads a parsed `preprocessor_config.json`.

    Raises:
        ValueError: A required key is missing, or a value has no meaning to the checkpoint.
    """
    name = without_backend(checkpoint)
    if name in WINDOWED_TYPES:
        return WindowedReference.from_checkpoint_json(
            checkpoint, WINDOWED_TYPES[name], resample_kernel, orientation, alpha
        )
    if name in FIXED_SIZE_TYPES:
        return FixedSizeReference.from_checkpoint_json(
            checkpoint, FIXED_SIZE_TYPES[name], resample_kernel, orientation, alpha
        )
    if name == "GotOcr2ImageProcessor" or "max_dynamic_patch" in checkpoint:
        return InternVlReference.from_checkpoint_json(checkpoint, resample_kernel, orientation, alpha)
    if "in_token_limit" in checkpoint:
        return KimiVlReference.from_checkpoint_json(checkpoint, resample_kernel, orientation)
    return ReferenceConfig.from_checkpoint_json(checkpoint, resample_kernel, orientation)


def reference_plan(config: AnyReference, width_px: int, height_px: int) -> ReferencePlan:
    """What becomes of an image of this size. Raises ValueError for one that the checkpoint refuses."""
    if isinstance(config, ReferenceConfig):
        return kimi_plan(config, width_px, height_px)
    return config.plan(width_px, height_px)
