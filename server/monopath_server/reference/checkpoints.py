"""The image settings of two checkpoints, written down apart from the server's, so that a wrong preset shows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["RELEASED_PRESETS"]

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
RELEASED_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"kimi-k2.5": _KIMI_K2_5, "kimi-k3": _KIMI_K3})
"""The keys of `media_proc_cfg`, by the server's name of the preset."""
