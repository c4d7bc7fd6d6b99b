"""The message of InternVL."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.intern_vl.config import InternVlConfig
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.backends import read_backend, write_backend

__all__ = ["INTERN_VL"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.intern_vl
    return InternVlConfig(
        tile_size=message.tile_size,
        min_tiles=message.min_tiles,
        max_tiles=message.max_tiles,
        has_thumbnail=message.has_thumbnail if message.HasField("has_thumbnail") else True,
        tokens_per_tile=message.tokens_per_tile if message.HasField("tokens_per_tile") else None,
        **read_backend(message),
    )


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, InternVlConfig):
        raise TypeError(f"Expected an InternVlConfig, got {type(config).__name__}")
    message = config_pb2.InternVlConfig(
        tile_size=config.tile_size,
        min_tiles=config.min_tiles,
        max_tiles=config.max_tiles,
        has_thumbnail=config.has_thumbnail,
        tokens_per_tile=config.tokens_per_tile,
    )
    write_backend(config, message)
    return config_pb2.ProcessorConfig(intern_vl=message)


INTERN_VL = FamilyAdapter(arm="intern_vl", config_type=InternVlConfig, read=_read, write=_write)
