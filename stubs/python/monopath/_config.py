"""From keyword arguments to the contract's config messages. No I/O."""

from __future__ import annotations

from typing import TypeAlias

from google.protobuf.message import Message

from monopath._enums import (
    AlphaName,
    DataTypeName,
    OrientationName,
    ResampleKernelName,
    ResultOrderName,
    alpha_number,
    data_type_number,
    order_number,
    orientation_number,
    resample_kernel_number,
)
from monopath.v1 import config_pb2

__all__ = ["Config", "output_config", "processor_config"]

FamilyConfig: TypeAlias = (
    config_pb2.KimiConfig
    | config_pb2.KimiVlConfig
    | config_pb2.QwenVlConfig
    | config_pb2.GlmVlConfig
    | config_pb2.GlmNextConfig
    | config_pb2.FixedSizeConfig
    | config_pb2.InternVlConfig
)
"""The message of one model family."""

Config: TypeAlias = FamilyConfig | config_pb2.ProcessorConfig
"""A typed config: a family's own message, or the one that wraps it."""

_ARMS = {
    field.message_type.full_name: field.name
    for field in config_pb2.ProcessorConfig.DESCRIPTOR.oneofs_by_name["source"].fields
    if field.message_type is not None and field.name not in ("checkpoint", "preset")
}
"""Where each family's message stands in `ProcessorConfig`."""


def processor_config(
    *,
    preset: str | None,
    config: Config | None,
    checkpoint_json: str | None,
    resample_kernel: ResampleKernelName | None,
    orientation: OrientationName | None,
    alpha: AlphaName | None = None,
) -> config_pb2.ProcessorConfig:
    """Return the config message. `resample_kernel`, `orientation` and `alpha` replace what the config says.

    Raises TypeError unless exactly one of `preset`, `config` and `checkpoint_json` is given, and for an `alpha` beside
    the typed config of a family that has no such choice.
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
    elif isinstance(config, config_pb2.ProcessorConfig):
        message.CopyFrom(config)
    elif isinstance(config, Message) and config.DESCRIPTOR.full_name in _ARMS:
        getattr(message, _ARMS[config.DESCRIPTOR.full_name]).CopyFrom(config)
    else:
        names = ", ".join(name.rpartition(".")[2] for name in _ARMS)
        raise TypeError(f"Expected config to be one of {names}, ProcessorConfig, got {type(config).__name__}")
    source = _source(message)
    if resample_kernel is not None:
        source.resample_kernel = resample_kernel_number(resample_kernel)
    if orientation is not None:
        source.orientation_policy = orientation_number(orientation)
    if alpha is not None:
        if isinstance(source, config_pb2.KimiConfig | config_pb2.KimiVlConfig):
            raise TypeError(f"Expected no alpha for a {type(source).__name__}, got {alpha!r}")
        source.alpha_policy = alpha_number(alpha)
    return message


def output_config(*, data_type: DataTypeName, order: ResultOrderName, bypass_cache: bool) -> config_pb2.OutputConfig:
    """Return the message that asks for features in this element type and order; their carrier adds its own part."""
    return config_pb2.OutputConfig(
        data_type=data_type_number(data_type),
        order=order_number(order),
        bypass_cache=bypass_cache,
        group_responses=True,
    )


def _source(
    message: config_pb2.ProcessorConfig,
) -> config_pb2.CheckpointConfig | config_pb2.PresetConfig | FamilyConfig:
    match message.WhichOneof("source"):
        case "checkpoint":
            return message.checkpoint
        case "preset":
            return message.preset
        case "kimi":
            return message.kimi
        case "kimi_vl":
            return message.kimi_vl
        case "qwen_vl":
            return message.qwen_vl
        case "glm_vl":
            return message.glm_vl
        case "glm_next":
            return message.glm_next
        case "fixed_size":
            return message.fixed_size
        case "intern_vl":
            return message.intern_vl
        case None:
            raise TypeError("Expected config to say a processor, got an empty ProcessorConfig")
