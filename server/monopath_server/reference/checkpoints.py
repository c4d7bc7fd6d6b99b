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
_CLIP_224: Mapping[str, Any] = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "resample": 3,
    **_CLIP,
    # Beside the image processor's own keys, as in a `processor_config.json`.
    "patch_size": 14,
}
_SIGLIP_224: Mapping[str, Any] = {
    "image_processor_type": "SiglipImageProcessor",
    "size": {"height": 224, "width": 224},
    "resample": 3,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "patch_size": 14,
}
_INTERN_VL_CHAT: Mapping[str, Any] = {
    "force_image_size": 448,
    "dynamic_image_size": True,
    "min_dynamic_patch": 1,
    "max_dynamic_patch": 12,
    "use_thumbnail": True,
    "downsample_ratio": 0.5,
    "vision_config": {"image_size": 448, "patch_size": 14},
}
_INTERN_VL_NATIVE: Mapping[str, Any] = {
    "image_processor_type": "GotOcr2ImageProcessorFast",
    "size": {"height": 448, "width": 448},
    "crop_to_patches": True,
    "min_patches": 1,
    "max_patches": 12,
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "image_seq_length": 256,
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
        "clip-vit-l-14": _CLIP_224,
        "clip-vit-l-14-336": {
            **_CLIP_224,
            "size": {"shortest_edge": 336},
            "crop_size": {"height": 336, "width": 336},
        },
        "siglip-so400m-14-224": _SIGLIP_224,
        "siglip-so400m-14-384": {**_SIGLIP_224, "size": {"height": 384, "width": 384}},
        "internvl2.5": _INTERN_VL_CHAT,
        "internvl3-hf": _INTERN_VL_NATIVE,
    }
)
"""The keys of each checkpoint's file, flat, by the server's name of the preset."""
