"""The message of GLM-4.xV."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.glm_vl.config import GlmVlConfig
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.windowed import read_windowed, write_windowed

__all__ = ["GLM_VL"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.glm_vl
    return GlmVlConfig(**read_windowed(message), min_pixels=message.min_pixels, max_pixels=message.max_pixels)


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, GlmVlConfig):
        raise TypeError(f"Expected a GlmVlConfig, got {type(config).__name__}")
    message = config_pb2.GlmVlConfig(min_pixels=config.min_pixels, max_pixels=config.max_pixels)
    write_windowed(config, message)
    return config_pb2.ProcessorConfig(glm_vl=message)


GLM_VL = FamilyAdapter(arm="glm_vl", config_type=GlmVlConfig, read=_read, write=_write)
