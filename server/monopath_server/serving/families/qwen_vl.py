"""The message of Qwen-VL."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.qwen_vl.config import QwenVlConfig
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.windowed import read_windowed, write_windowed

__all__ = ["QWEN_VL"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.qwen_vl
    return QwenVlConfig(**read_windowed(message), min_pixels=message.min_pixels, max_pixels=message.max_pixels)


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, QwenVlConfig):
        raise TypeError(f"Expected a QwenVlConfig, got {type(config).__name__}")
    message = config_pb2.QwenVlConfig(min_pixels=config.min_pixels, max_pixels=config.max_pixels)
    write_windowed(config, message)
    return config_pb2.ProcessorConfig(qwen_vl=message)


QWEN_VL = FamilyAdapter(arm="qwen_vl", config_type=QwenVlConfig, read=_read, write=_write)
