"""The image settings that ship with two checkpoints, written down a second time, so that a wrong preset shows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from monopath_server.reference import ReferenceConfig

__all__ = ["reference_config"]

_KIMI_K2_5: Mapping[str, Any] = {
    "patch_size": 14,
    "merge_kernel_size": 2,
    "in_patch_limit": 16384,
    "patch_limit_on_one_side": 512,
    "fixed_output_tokens": None,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
_KIMI_K3: Mapping[str, Any] = {
    **_KIMI_K2_5,
    "in_patch_limit": 65536,
    "transparent_bg_config": {
        "pattern": "chessboard",
        "chessboard_square_size": 8,
        "chessboard_square_on_top_left": True,
        "chessboard_white_value": 255,
        "chessboard_gray_value": 180,
    },
    "transparent_bg_fill_stage": "after_resize",
}
_CHECKPOINTS = MappingProxyType({"kimi-k2.5": _KIMI_K2_5, "kimi-k3": _KIMI_K3})


def reference_config(preset: str) -> ReferenceConfig:
    """Return what the reference needs to know of a checkpoint."""
    return ReferenceConfig.from_checkpoint_json({"media_proc_cfg": _CHECKPOINTS[preset]})
