"""Prompts with images in them: how many placeholders each image takes, and what stands around them.

    from monopath.prompts import KIMI_K3

    expanded = KIMI_K3.expand_token_ids(ids, [result.plan for result in results], 163605, encode=tokenizer.encode)
    expanded.token_ids, expanded.ranges

Everything follows from plans, so from sizes alone: `client.plan` is enough, and no pixel has to be decoded. A chat
template writes one placeholder for each image; here it becomes as many as the image has tokens. The ids of the
placeholders are the checkpoint's own (`media_placeholder_token_id`, `image_token_id` in its config.json).
"""

from __future__ import annotations

from monopath.prompts._expansion import ExpandedTokenIds, ImageRange
from monopath.prompts._families import GLM_VL, IMAGE_PROMPTS, KIMI_K3, KIMI_K25, KIMI_VL, QWEN_VL
from monopath.prompts._image_prompt import Encode, ImagePrompt

__all__ = [
    "GLM_VL",
    "IMAGE_PROMPTS",
    "KIMI_K3",
    "KIMI_K25",
    "KIMI_VL",
    "QWEN_VL",
    "Encode",
    "ExpandedTokenIds",
    "ImagePrompt",
    "ImageRange",
]
