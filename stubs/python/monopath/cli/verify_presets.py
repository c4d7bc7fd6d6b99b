"""Presets that only a server knows, in the words of a `preprocessor_config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monopath import Alpha
from monopath.cli.faults import UserFault
from monopath.v1 import config_pb2

__all__ = ["alpha_of", "checkpoint_of"]


def checkpoint_of(processor: config_pb2.ProcessorConfig) -> Mapping[str, Any]:
    """Return the keys of a file, flat. Raises UserFault for a family that the reference does not know."""
    match processor.WhichOneof("source"):
        case "kimi":
            return _kimi(processor.kimi)
        case "kimi_vl":
            kimi_vl = processor.kimi_vl
            return {
                "patch_size": kimi_vl.patch_size,
                "merge_kernel_size": kimi_vl.merge_kernel_size,
                "in_token_limit": kimi_vl.in_token_limit,
                "pad_input": True,
                "image_mean": _channel_values(kimi_vl.image_mean),
                "image_std": _channel_values(kimi_vl.image_std),
            }
        case "qwen_vl":
            return _windowed("Qwen2VLImageProcessor", processor.qwen_vl) | _areas(processor.qwen_vl)
        case "glm_vl":
            return _windowed("Glm4vImageProcessor", processor.glm_vl) | _areas(processor.glm_vl)
        case "glm_next":
            glm = processor.glm_next
            return _windowed("Glm5NextImageProcessor", glm) | {
                "patch_expand_factor": glm.patch_expand_factor,
                "min_image_tokens": glm.min_image_tokens,
                "max_image_tokens": glm.max_image_tokens,
            }
        case family:
            raise UserFault(f"The reference does not know the family {family}")


def alpha_of(processor: config_pb2.ProcessorConfig) -> Alpha:
    """Return what the typed config does with alpha; DROP for a family that has no choice."""
    for message in (processor.qwen_vl, processor.glm_vl, processor.glm_next):
        if message.alpha_policy == config_pb2.ALPHA_POLICY_WHITE:
            return Alpha.WHITE
    return Alpha.DROP


def _areas(message: config_pb2.QwenVlConfig | config_pb2.GlmVlConfig) -> dict[str, Any]:
    return {"size": {"shortest_edge": message.min_pixels, "longest_edge": message.max_pixels}}


def _windowed(
    name: str, message: config_pb2.QwenVlConfig | config_pb2.GlmVlConfig | config_pb2.GlmNextConfig
) -> dict[str, Any]:
    return {
        "image_processor_type": name,
        "patch_size": message.patch_size,
        "temporal_patch_size": message.temporal_patch_size,
        "merge_size": message.merge_size,
        "image_mean": _channel_values(message.image_mean),
        "image_std": _channel_values(message.image_std),
    }


def _kimi(kimi: config_pb2.KimiConfig) -> Mapping[str, Any]:
    checkpoint: dict[str, Any] = {
        "patch_size": kimi.patch_size,
        "merge_kernel_size": kimi.merge_kernel_size,
        "in_patch_limit": kimi.in_patch_limit,
        "patch_limit_on_one_side": kimi.patch_limit_on_one_side,
        "fixed_output_tokens": kimi.fixed_output_tokens if kimi.HasField("fixed_output_tokens") else None,
        "image_mean": _channel_values(kimi.image_mean),
        "image_std": _channel_values(kimi.image_std),
    }
    if kimi.HasField("transparent_bg_fill_stage"):
        stage = config_pb2.TransparentFillStage.Name(kimi.transparent_bg_fill_stage)
        checkpoint["transparent_bg_fill_stage"] = stage.removeprefix("TRANSPARENT_FILL_STAGE_").lower()
    if kimi.HasField("transparent_bg_config"):
        background = kimi.transparent_bg_config
        pattern = config_pb2.BackgroundPattern.Name(background.pattern).removeprefix("BACKGROUND_PATTERN_").lower()
        checkpoint["transparent_bg_config"] = {
            "pattern": pattern,
            **{field.name: value for field, value in background.ListFields() if field.name.startswith("chessboard_")},
        }
    return checkpoint


def _channel_values(values: config_pb2.ChannelValues) -> list[float]:
    return [values.red, values.green, values.blue]
