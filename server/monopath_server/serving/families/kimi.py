"""The message of Kimi-K2.5 and Kimi-K3."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import Background, FillStage, OrientationPolicy, ResampleKernel
from monopath_server.serving.enums import BACKGROUND_PATTERNS, FILL_STAGES, ORIENTATION_POLICIES, RESAMPLE_KERNELS
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.values import (
    channel_message,
    channel_values,
    kernel_or_none,
    orientation_or_none,
)

__all__ = ["KIMI"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.kimi
    return KimiConfig(
        patch_size=message.patch_size,
        merge_kernel_size=message.merge_kernel_size,
        in_patch_limit=message.in_patch_limit,
        patch_limit_on_one_side=message.patch_limit_on_one_side,
        image_mean=channel_values(message.image_mean),
        image_std=channel_values(message.image_std),
        fixed_output_tokens=message.fixed_output_tokens if message.HasField("fixed_output_tokens") else None,
        transparent_background=_background(message.transparent_bg_config)
        if message.HasField("transparent_bg_config")
        else None,
        transparent_fill_stage=FILL_STAGES.to_inner(message.transparent_bg_fill_stage)
        if message.HasField("transparent_bg_fill_stage")
        else FillStage.BEFORE_RESIZE,
        resample_kernel=kernel_or_none(message) or ResampleKernel.PILLOW_13,
        orientation=orientation_or_none(message) or OrientationPolicy.KEEP,
    )


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, KimiConfig):
        raise TypeError(f"Expected a KimiConfig, got {type(config).__name__}")
    kimi = config_pb2.KimiConfig(
        patch_size=config.patch_size,
        merge_kernel_size=config.merge_kernel_size,
        in_patch_limit=config.in_patch_limit,
        patch_limit_on_one_side=config.patch_limit_on_one_side,
        fixed_output_tokens=config.fixed_output_tokens,
        image_mean=channel_message(config.image_mean),
        image_std=channel_message(config.image_std),
        transparent_bg_config=_background_message(config.transparent_background),
        transparent_bg_fill_stage=FILL_STAGES.to_wire(config.transparent_fill_stage),
        resample_kernel=RESAMPLE_KERNELS.to_wire(config.resample_kernel),
        orientation_policy=ORIENTATION_POLICIES.to_wire(config.orientation),
    )
    return config_pb2.ProcessorConfig(kimi=kimi)


def _background(message: config_pb2.TransparentBackground) -> Background:
    default = Background(BACKGROUND_PATTERNS.to_inner(message.pattern))
    return Background(
        pattern=default.pattern,
        chessboard_square_size=message.chessboard_square_size
        if message.HasField("chessboard_square_size")
        else default.chessboard_square_size,
        chessboard_square_on_top_left=message.chessboard_square_on_top_left
        if message.HasField("chessboard_square_on_top_left")
        else default.chessboard_square_on_top_left,
        chessboard_white_value=message.chessboard_white_value
        if message.HasField("chessboard_white_value")
        else default.chessboard_white_value,
        chessboard_gray_value=message.chessboard_gray_value
        if message.HasField("chessboard_gray_value")
        else default.chessboard_gray_value,
    )


def _background_message(background: Background | None) -> config_pb2.TransparentBackground | None:
    if background is None:
        return None
    return config_pb2.TransparentBackground(
        pattern=BACKGROUND_PATTERNS.to_wire(background.pattern),
        chessboard_square_size=background.chessboard_square_size,
        chessboard_square_on_top_left=background.chessboard_square_on_top_left,
        chessboard_white_value=background.chessboard_white_value,
        chessboard_gray_value=background.chessboard_gray_value,
    )


KIMI = FamilyAdapter(arm="kimi", config_type=KimiConfig, read=_read, write=_write)
