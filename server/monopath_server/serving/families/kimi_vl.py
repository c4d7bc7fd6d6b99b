"""The message of Kimi-VL."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.kimi_vl.config import KimiVlConfig
from monopath_server.processors.types import OrientationPolicy, ResampleKernel
from monopath_server.serving.enums import ORIENTATION_POLICIES, RESAMPLE_KERNELS
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.values import (
    channel_message,
    channel_values,
    kernel_or_none,
    orientation_or_none,
)

__all__ = ["KIMI_VL"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.kimi_vl
    return KimiVlConfig(
        patch_size=message.patch_size,
        merge_kernel_size=message.merge_kernel_size,
        in_token_limit=message.in_token_limit,
        image_mean=channel_values(message.image_mean),
        image_std=channel_values(message.image_std),
        pad_input=message.pad_input if message.HasField("pad_input") else True,
        resample_kernel=kernel_or_none(message) or ResampleKernel.PILLOW_13,
        orientation=orientation_or_none(message) or OrientationPolicy.KEEP,
    )


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, KimiVlConfig):
        raise TypeError(f"Expected a KimiVlConfig, got {type(config).__name__}")
    return config_pb2.ProcessorConfig(
        kimi_vl=config_pb2.KimiVlConfig(
            patch_size=config.patch_size,
            merge_kernel_size=config.merge_kernel_size,
            in_token_limit=config.in_token_limit,
            image_mean=channel_message(config.image_mean),
            image_std=channel_message(config.image_std),
            pad_input=config.pad_input,
            resample_kernel=RESAMPLE_KERNELS.to_wire(config.resample_kernel),
            orientation_policy=ORIENTATION_POLICIES.to_wire(config.orientation),
        )
    )


KIMI_VL = FamilyAdapter(arm="kimi_vl", config_type=KimiVlConfig, read=_read, write=_write)
