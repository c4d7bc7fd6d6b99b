"""The message of CLIP and SigLIP."""

from __future__ import annotations

from monopath.v1 import config_pb2, geometry_pb2
from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.fixed_size.config import FixedSizeConfig
from monopath_server.processors.fixed_size.geometry import ExactResize, Resize, ShortestEdgeResize
from monopath_server.processors.types import ResampleFilter, Size
from monopath_server.serving.enums import RESAMPLE_FILTERS
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.backends import read_backend, write_backend

__all__ = ["FIXED_SIZE"]


def _read(source: config_pb2.ProcessorConfig) -> ProcessorConfig:
    message = source.fixed_size
    return FixedSizeConfig(
        resize=_resize(message),
        crop_size=_size(message.crop_size) if message.HasField("crop_size") else None,
        resample_filter=RESAMPLE_FILTERS.to_inner(message.resample_filter)
        if message.HasField("resample_filter")
        else ResampleFilter.BICUBIC,
        patch_size=message.patch_size if message.HasField("patch_size") else None,
        class_token_count=message.class_token_count,
        **read_backend(message),
    )


def _write(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    if not isinstance(config, FixedSizeConfig):
        raise TypeError(f"Expected a FixedSizeConfig, got {type(config).__name__}")
    message = config_pb2.FixedSizeConfig(
        crop_size=None if config.crop_size is None else _size_message(config.crop_size),
        resample_filter=RESAMPLE_FILTERS.to_wire(config.resample_filter),
        patch_size=config.patch_size,
        class_token_count=config.class_token_count,
    )
    write_backend(config, message)
    match config.resize:
        case ShortestEdgeResize(shortest_edge, longest_edge):
            message.shortest_edge.CopyFrom(
                config_pb2.ShortestEdge(length_px=shortest_edge, longest_edge_px=longest_edge)
            )
        case ExactResize(height, width):
            message.exact_size.CopyFrom(geometry_pb2.Size(width_px=width, height_px=height))
    return config_pb2.ProcessorConfig(fixed_size=message)


def _resize(message: config_pb2.FixedSizeConfig) -> Resize:
    match message.WhichOneof("resize"):
        case "shortest_edge":
            edge = message.shortest_edge
            return ShortestEdgeResize(
                edge.length_px, edge.longest_edge_px if edge.HasField("longest_edge_px") else None
            )
        case "exact_size":
            return ExactResize(message.exact_size.height_px, message.exact_size.width_px)
        case None:
            raise ConfigFault((ConfigViolation("resize", "Expected one of shortest_edge, exact_size, got none"),))


def _size(message: geometry_pb2.Size) -> Size:
    return Size(message.width_px, message.height_px)


def _size_message(size: Size) -> geometry_pb2.Size:
    return geometry_pb2.Size(width_px=size.width_px, height_px=size.height_px)


FIXED_SIZE = FamilyAdapter(arm="fixed_size", config_type=FixedSizeConfig, read=_read, write=_write)
