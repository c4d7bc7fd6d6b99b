"""The message of InternVL."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.intern_vl.config import InternVlConfig
from monopath_server.processors.types import AlphaPolicy, OrientationPolicy, ResampleKernel
from monopath_server.serving.enums import ALPHA_POLICIES, ORIENTATION_POLICIES, RESAMPLE_KERNELS
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.values import (
    alpha_or_none,
    channel_message,
    channel_values,
    kernel_or_none,
    orientation_or_none,
)

__all__ = ["INTERN_VL"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.intern_vl
    return InternVlConfig(
        tile_size=message.tile_size,
        min_tiles=message.min_tiles,
        max_tiles=message.max_tiles,
        has_thumbnail=message.has_thumbnail if message.HasField("has_thumbnail") else True,
        tokens_per_tile=message.tokens_per_tile if message.HasField("tokens_per_tile") else None,
        image_mean=channel_values(message.image_mean),
        image_std=channel_values(message.image_std),
        resample_kernel=kernel_or_none(message) or ResampleKernel.ATEN_U8,
        alpha=alpha_or_none(message) or AlphaPolicy.DROP,
        orientation=orientation_or_none(message) or OrientationPolicy.KEEP,
    )


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, InternVlConfig):
        raise TypeError(f"Expected an InternVlConfig, got {type(config).__name__}")
    return config_pb2.ProcessorConfig(
        intern_vl=config_pb2.InternVlConfig(
            tile_size=config.tile_size,
            min_tiles=config.min_tiles,
            max_tiles=config.max_tiles,
            has_thumbnail=config.has_thumbnail,
            tokens_per_tile=config.tokens_per_tile,
            image_mean=channel_message(config.image_mean),
            image_std=channel_message(config.image_std),
            resample_kernel=RESAMPLE_KERNELS.to_wire(config.resample_kernel),
            alpha_policy=ALPHA_POLICIES.to_wire(config.alpha),
            orientation_policy=ORIENTATION_POLICIES.to_wire(config.orientation),
        )
    )


INTERN_VL = FamilyAdapter(arm="intern_vl", config_type=InternVlConfig, read=_read, write=_write)
