"""Fields that the messages of all families have whose processors `transformers` has with both backends."""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from monopath.v1 import config_pb2
from monopath_server.processors.backends import BackendConfig
from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import AlphaPolicy, OrientationPolicy, ResampleKernel
from monopath_server.serving.enums import ALPHA_POLICIES, ORIENTATION_POLICIES, RESAMPLE_KERNELS
from monopath_server.serving.families.values import (
    alpha_or_none,
    channel_message,
    channel_values,
    kernel_or_none,
    orientation_or_none,
)

__all__ = ["BackendFields", "BackendMessage", "read_backend", "write_backend"]

BackendMessage: TypeAlias = (
    config_pb2.QwenVlConfig
    | config_pb2.GlmVlConfig
    | config_pb2.GlmNextConfig
    | config_pb2.InternVlConfig
    | config_pb2.FixedSizeConfig
)


class BackendFields(TypedDict):
    """Arguments of a `BackendConfig`."""

    image_mean: ChannelValues
    image_std: ChannelValues
    resample_kernel: ResampleKernel
    alpha: AlphaPolicy
    orientation: OrientationPolicy


def read_backend(message: BackendMessage) -> BackendFields:
    """Read the shared fields."""
    return BackendFields(
        image_mean=channel_values(message.image_mean),
        image_std=channel_values(message.image_std),
        resample_kernel=kernel_or_none(message) or ResampleKernel.ATEN_U8,
        alpha=alpha_or_none(message) or AlphaPolicy.DROP,
        orientation=orientation_or_none(message) or OrientationPolicy.KEEP,
    )


def write_backend(config: BackendConfig, message: BackendMessage) -> None:
    """Write the shared fields."""
    message.image_mean.CopyFrom(channel_message(config.image_mean))
    message.image_std.CopyFrom(channel_message(config.image_std))
    message.resample_kernel = RESAMPLE_KERNELS.to_wire(config.resample_kernel)
    message.alpha_policy = ALPHA_POLICIES.to_wire(config.alpha)
    message.orientation_policy = ORIENTATION_POLICIES.to_wire(config.orientation)
