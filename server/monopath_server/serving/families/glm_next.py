"""The message of GLM5-Next."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.glm_next.config import GlmNextConfig
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.windowed import read_windowed, write_windowed

__all__ = ["GLM_NEXT"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.glm_next
    return GlmNextConfig(
        **read_windowed(message),
        patch_expand_factor=message.patch_expand_factor,
        min_image_tokens=message.min_image_tokens,
        max_image_tokens=message.max_image_tokens,
    )


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, GlmNextConfig):
        raise TypeError(f"Expected a GlmNextConfig, got {type(config).__name__}")
    message = config_pb2.GlmNextConfig(
        patch_expand_factor=config.patch_expand_factor,
        min_image_tokens=config.min_image_tokens,
        max_image_tokens=config.max_image_tokens,
    )
    write_windowed(config, message)
    return config_pb2.ProcessorConfig(glm_next=message)


GLM_NEXT = FamilyAdapter(arm="glm_next", config_type=GlmNextConfig, read=_read, write=_write)
