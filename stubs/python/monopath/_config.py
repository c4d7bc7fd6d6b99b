"""From keyword arguments to the contract's config messages. No I/O."""

from __future__ import annotations

from typing import TypeAlias

from monopath._enums import (
    DataTypeName,
    OrientationName,
    ResampleKernelName,
    ResultOrderName,
    data_type_number,
    order_number,
    orientation_number,
    resample_kernel_number,
)
from monopath.v1 import config_pb2

__all__ = ["Config", "output_config", "processor_config"]

Config: TypeAlias = config_pb2.KimiConfig | config_pb2.ProcessorConfig
"""A typed config: a family's own message, or the one that wraps it."""


def processor_config(
    *,
    preset: str | None,
    config: Config | None,
    checkpoint_json: str | None,
    resample_kernel: ResampleKernelName | None,
    orientation: OrientationName | None,
) -> config_pb2.ProcessorConfig:
    """Return the config message. `resample_kernel` and `orientation` replace what the config says.

    Raises TypeError unless exactly one of `preset`, `config` and `checkpoint_json` is given.
    """
    given = [
        name
        for name, value in (("preset", preset), ("config", config), ("checkpoint_json", checkpoint_json))
        if value is not None
    ]
    if len(given) != 1:
        raise TypeError(
            f"Expected exactly one of preset, config and checkpoint_json, got {' and '.join(given) or 'none'}"
        )
    message = config_pb2.ProcessorConfig()
    if preset is not None:
        message.preset.name = preset
    elif checkpoint_json is not None:
        message.checkpoint.preprocessor_config_json = checkpoint_json
    elif isinstance(config, config_pb2.KimiConfig):
        message.kimi.CopyFrom(config)
    elif isinstance(config, config_pb2.ProcessorConfig):
        message.CopyFrom(config)
    else:
        raise TypeError(f"Expected config to be a KimiConfig or ProcessorConfig message, got {type(config).__name__}")
    source = _source(message)
    if resample_kernel is not None:
        source.resample_kernel = resample_kernel_number(resample_kernel)
    if orientation is not None:
        source.orientation_policy = orientation_number(orientation)
    return message


def output_config(*, data_type: DataTypeName, order: ResultOrderName, bypass_cache: bool) -> config_pb2.OutputConfig:
    """Return the message that asks for features in this element type and order; their carrier adds its own part."""
    return config_pb2.OutputConfig(
        data_type=data_type_number(data_type), order=order_number(order), bypass_cache=bypass_cache
    )


def _source(
    message: config_pb2.ProcessorConfig,
) -> config_pb2.CheckpointConfig | config_pb2.PresetConfig | config_pb2.KimiConfig:
    match message.WhichOneof("source"):
        case "checkpoint":
            return message.checkpoint
        case "preset":
            return message.preset
        case "kimi":
            return message.kimi
        case None:
            raise TypeError("Expected config to say a processor, got an empty ProcessorConfig")
