"""Fields that the messages of Qwen-VL and of the GLM families share."""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from monopath.v1 import config_pb2
from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import AlphaPolicy, OrientationPolicy, ResampleKernel
from monopath_server.processors.windowed import WindowedConfig
from monopath_server.serving.enums import ALPHA_POLICIES, ORIENTATION_POLICIES, RESAMPLE_KERNELS
from monopath_server.serving.families.values import (
    alpha_or_none,
    channel_message,
    channel_values,
    kernel_or_none,
    orientation_or_none,
)

__all__ = ["WindowedFields", "WindowedMessage", "read_windowed", "write_windowed"]

WindowedMessage: TypeAlias = config_pb2.QwenVlConfig | config_pb2.GlmVlConfig | config_pb2.GlmNextConfig


class WindowedFields(TypedDict):
    """Arguments of a `WindowedConfig`."""

    patch_size: int
    temporal_patch_size: int
    merge_size: int
    image_mean: ChannelValues
    image_std: ChannelValues
    resample_kernel: ResampleKernel
    alpha: AlphaPolicy
    orientation: OrientationPolicy


def read_windowed(message: WindowedMessage) -> WindowedFields:
    """Read the shared fields."""
    return WindowedFields(
        patch_size=message.patch_size,
        temporal_patch_size=message.temporal_patch_size,
        merge_size=message.merge_size,
        image_mean=channel_values(message.image_mean),
        image_std=channel_values(message.image_std),
        resample_kernel=kernel_or_none(message) or ResampleKernel.ATEN_U8,
        alpha=alpha_or_none(message) or AlphaPolicy.DROP,
        orientation=orientation_or_none(message) or OrientationPolicy.KEEP,
    )


def write_windowed(config: WindowedConfig, message: WindowedMessage) -> None:
    """Write the shared fields."""
    message.patch_size = config.patch_size
    message.temporal_patch_size = config.temporal_patch_size
    message.merge_size = config.merge_size
    message.image_mean.CopyFrom(channel_message(config.image_mean))
    message.image_std.CopyFrom(channel_message(config.image_std))
    message.resample_kernel = RESAMPLE_KERNELS.to_wire(config.resample_kernel)
    message.alpha_policy = ALPHA_POLICIES.to_wire(config.alpha)
    message.orientation_policy = ORIENTATION_POLICIES.to_wire(config.orientation)
