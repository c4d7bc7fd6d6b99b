"""Fields that the messages of Qwen-VL and of the GLM families share."""

from __future__ import annotations

from typing import TypeAlias

from monopath.v1 import config_pb2
from monopath_server.processors.windowed import WindowedConfig
from monopath_server.serving.families.backends import BackendFields, read_backend, write_backend

__all__ = ["WindowedFields", "WindowedMessage", "read_windowed", "write_windowed"]

WindowedMessage: TypeAlias = config_pb2.QwenVlConfig | config_pb2.GlmVlConfig | config_pb2.GlmNextConfig


class WindowedFields(BackendFields):
    """Arguments of a `WindowedConfig`."""

    patch_size: int
    temporal_patch_size: int
    merge_size: int


def read_windowed(message: WindowedMessage) -> WindowedFields:
    """Read the shared fields."""
    return {
        "patch_size": message.patch_size,
        "temporal_patch_size": message.temporal_patch_size,
        "merge_size": message.merge_size,
        **read_backend(message),
    }


def write_windowed(config: WindowedConfig, message: WindowedMessage) -> None:
    """Write the shared fields."""
    message.patch_size = config.patch_size
    message.temporal_patch_size = config.temporal_patch_size
    message.merge_size = config.merge_size
    write_backend(config, message)
