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
                "pad_input": kimi_vl.pad_input,
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
        case "fixed_size":
            return _fixed_size(processor.fixed_size)
        case "intern_vl":
            return _intern_vl(processor.intern_vl)
        case family:
            raise UserFault(f"The reference does not know the family {family}")


def alpha_of(processor: config_pb2.ProcessorConfig) -> Alpha:
    """Return what the typed config does with alpha; DROP for a family that has no choice."""
    for message in (
        processor.qwen_vl,
        processor.glm_vl,
        processor.glm_next,
        processor.fixed_size,
        processor.intern_vl,
    ):
        if message.alpha_policy == config_pb2.ALPHA_POLICY_WHITE:
            return Alpha.WHITE
    return Alpha.DROP


def _fixed_size(fixed: config_pb2.FixedSizeConfig) -> Mapping[str, Any]:
    """As a file of CLIP's where there is a crop, else of SigLIP's."""
    size: dict[str, int] = {"height": fixed.exact_size.height_px, "width": fixed.exact_size.width_px}
    if fixed.HasField("shortest_edge"):
        size = {"shortest_edge": fixed.shortest_edge.length_px}
        if fixed.shortest_edge.HasField("longest_edge_px"):
            size["longest_edge"] = fixed.shortest_edge.longest_edge_px
    is_clip = fixed.HasField("crop_size")
    if fixed.patch_size and fixed.class_token_count != int(is_clip):
        raise UserFault(f"The reference does not know an encoder with {fixed.class_token_count} class tokens")
    checkpoint: dict[str, Any] = {
        "image_processor_type": "CLIPImageProcessor" if is_clip else "SiglipImageProcessor",
        "size": size,
        "resample": 2 if fixed.resample_filter == config_pb2.RESAMPLE_FILTER_BILINEAR else 3,
        "image_mean": _channel_values(fixed.image_mean),
        "image_std": _channel_values(fixed.image_std),
    }
    if is_clip:
        checkpoint["crop_size"] = {"height": fixed.crop_size.height_px, "width": fixed.crop_size.width_px}
    if fixed.HasField("patch_size"):
        checkpoint["patch_size"] = fixed.patch_size
    return checkpoint


def _intern_vl(intern_vl: config_pb2.InternVlConfig) -> Mapping[str, Any]:
    if not intern_vl.has_thumbnail and intern_vl.max_tiles > 1:
        raise UserFault("The reference does not know native InternVL files without a thumbnail")
    checkpoint: dict[str, Any] = {
        "image_processor_type": "GotOcr2ImageProcessor",
        "size": {"height": intern_vl.tile_size, "width": intern_vl.tile_size},
        "crop_to_patches": True,
        "min_patches": intern_vl.min_tiles,
        "max_patches": intern_vl.max_tiles,
        "image_mean": _channel_values(intern_vl.image_mean),
        "image_std": _channel_values(intern_vl.image_std),
    }
    if intern_vl.HasField("tokens_per_tile"):
        checkpoint["image_seq_length"] = intern_vl.tokens_per_tile
    return checkpoint


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
