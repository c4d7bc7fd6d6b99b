"""The families' image prompts, as their chat templates and processors write them.

Each is what vLLM's `get_placeholder_str` and sglang's processors have for the family
(vllm/model_executor/models/{kimi_k25,kimi_vl,qwen2_vl,glm4_1v}.py, sglang/srt/multimodal/processors/kimi_k3.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath.prompts._image_prompt import ImagePrompt

__all__ = ["GLM_VL", "IMAGE_PROMPTS", "KIMI_K3", "KIMI_K25", "KIMI_VL", "QWEN_VL"]

KIMI_K3 = ImagePrompt(
    placeholder="<|media_pad|>",
    prefix="<|media_begin|>image {width}x{height}<|media_content|>",
    suffix="<|media_end|>",
    is_framed_by_template=False,
)
"""Kimi-K3: the template writes the placeholder alone, and the processor frames it with the image's own size."""

KIMI_K25 = ImagePrompt(
    placeholder="<|media_pad|>",
    prefix="<|media_begin|>image<|media_content|>",
    suffix="<|media_end|>",
    is_framed_by_template=True,
)
"""Kimi-K2.5."""

KIMI_VL = ImagePrompt(
    placeholder="<|media_pad|>",
    prefix="<|media_start|>image<|media_content|>",
    suffix="<|media_end|>",
    is_framed_by_template=True,
)
"""Kimi-VL."""

QWEN_VL = ImagePrompt(
    placeholder="<|image_pad|>", prefix="<|vision_start|>", suffix="<|vision_end|>", is_framed_by_template=True
)
"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5."""

GLM_VL = ImagePrompt(
    placeholder="<|image|>", prefix="<|begin_of_image|>", suffix="<|end_of_image|>", is_framed_by_template=True
)
"""GLM-4.1V, GLM-4.5V, GLM-4.6V, GLM-OCR and GLM5-Next."""

IMAGE_PROMPTS: Mapping[str, ImagePrompt] = MappingProxyType(
    {
        "kimi-k2.5": KIMI_K25,
        "kimi-k3": KIMI_K3,
        "kimi-vl-a3b": KIMI_VL,
        "kimi-vl-a3b-2506": KIMI_VL,
        "qwen2-vl": QWEN_VL,
        "qwen2.5-vl": QWEN_VL,
        "qwen3-vl": QWEN_VL,
        "qwen3.5": QWEN_VL,
        "glm-4.1v": GLM_VL,
        "glm5-next": GLM_VL,
    }
)
"""By the names of the servers' own presets."""
