"""The image settings of released checkpoints, written down apart from the server's, so that a wrong preset shows."""

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
_CLIP: Mapping[str, Any] = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_KIMI_VL: Mapping[str, Any] = {
    "patch_size": 14,
    "merge_kernel_size": [2, 2],
    "in_token_limit": 4096,
    "num_pooled_tokens": 1024,
    "pad_input": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
_QWEN2_VL: Mapping[str, Any] = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "min_pixels": 3136,
    "max_pixels": 12845056,
    **_CLIP,
}
_QWEN3_VL: Mapping[str, Any] = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"shortest_edge": 65536, "longest_edge": 16777216},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
_GLM_4V: Mapping[str, Any] = {
    "image_processor_type": "Glm4vImageProcessor",
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"shortest_edge": 12544, "longest_edge": 9633792},
    **_CLIP,
}
_GLM5_NEXT: Mapping[str, Any] = {
    "image_processor_type": "Glm5NextImageProcessor",
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "patch_expand_factor": 1,
    "min_image_tokens": 16,
    "max_image_tokens": 8000,
    **_CLIP,
}
RELEASED_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "kimi-k2.5": _KIMI_K2_5,
        "kimi-k3": _KIMI_K3,
        "kimi-vl-a3b": _KIMI_VL,
        "kimi-vl-a3b-2506": {**_KIMI_VL, "in_token_limit": 16384},
        "qwen2-vl": _QWEN2_VL,
        "qwen2.5-vl": _QWEN2_VL,
        "qwen3-vl": _QWEN3_VL,
        "qwen3.5": _QWEN3_VL,
        "glm-4.1v": _GLM_4V,
        "glm5-next": _GLM5_NEXT,
    }
)
"""The keys of each checkpoint's file, flat, by the server's name of the preset."""
