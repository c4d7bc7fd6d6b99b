"""Processor and output configs: from their messages, checked, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from monopath.v1 import config_pb2
from monopath_server.delivery.shared_memory import Probe
from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors.digest import config_digest
from monopath_server.processors.kimi.checkpoint_json import parse_checkpoint_json
from monopath_server.processors.kimi.config import KimiConfig, validate
from monopath_server.processors.types import (
    Background,
    ElementType,
    FillStage,
    OrientationPolicy,
    ResampleKernel,
)
from monopath_server.serving.enums import (
    BACKGROUND_PATTERNS,
    DATA_TYPES,
    FILL_STAGES,
    ORIENTATION_POLICIES,
    RESAMPLE_KERNELS,
)
from monopath_server.serving.rules import find_violations

__all__ = [
    "CudaIpc",
    "Inline",
    "OutputSettings",
    "ResolvedProcessor",
    "SharedMemorySegments",
    "Transport",
    "output_settings",
    "processor_message",
    "resolve_processor",
]


@dataclass(frozen=True, slots=True)
class ResolvedProcessor:
    """A processor config that holds."""

    config: KimiConfig
    sha256: bytes
    warnings: tuple[ConfigViolation, ...]


@dataclass(frozen=True, slots=True)
class Inline:
    """Features are asked for in the response messages."""


@dataclass(frozen=True, slots=True)
class SharedMemorySegments:
    """Features are asked for in shared memory."""

    probe: Probe | None
    """The client's."""


@dataclass(frozen=True, slots=True)
class CudaIpc:
    """Features are asked for in the memory of the GPU that makes them."""

    boot_id: str
    pid_namespace: str
    device_uuids: tuple[str, ...]


Transport: TypeAlias = Inline | SharedMemorySegments | CudaIpc


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """What a stream's results look like, and how they travel."""

    element_type: ElementType
    as_sent: bool
    chunk_bytes: int
    bypass_cache: bool
    transport: Transport


def resolve_processor(
    message: config_pb2.ProcessorConfig, prefix: str, presets: Mapping[str, KimiConfig]
) -> ResolvedProcessor:
    """Turn any of the three sources into the typed config. `prefix` is the path of `message` in its request.

    Raises:
        ConfigFault: with every wrong or missing field at once.
    """
    violations = find_violations(message, prefix)
    if violations:
        raise ConfigFault(violations)
    warnings: tuple[ConfigViolation, ...] = ()
    match message.WhichOneof("source"):
        case "kimi":
            config = _kimi(message.kimi)
            if violations := validate(config):
                raise ConfigFault(
                    tuple(ConfigViolation(f"{prefix}.kimi.{found.field}", found.description) for found in violations)
                )
        case "checkpoint":
            config, warnings = _checkpoint(message.checkpoint, f"{prefix}.checkpoint.preprocessor_config_json")
        case "preset":
            config = _preset(message.preset, f"{prefix}.preset.name", presets)
        case None:
            raise ConfigFault(
                (ConfigViolation(f"{prefix}.source", "Expected one of checkpoint, preset, kimi, got none"),)
            )
    return ResolvedProcessor(config, config_digest(config), warnings)


def output_settings(message: config_pb2.OutputConfig, prefix: str, default_chunk_bytes: int) -> OutputSettings:
    """Read how results look and travel.

    Raises:
        ConfigFault: with every wrong or missing field at once.
    """
    violations = find_violations(message, prefix)
    transport = _transport(message)
    if transport is None:
        violations += (
            ConfigViolation(f"{prefix}.transport", "Expected one of inline, shared_memory, cuda_ipc, got none"),
        )
    if violations or transport is None:
        raise ConfigFault(violations)
    chunk_bytes = message.inline.chunk_bytes if message.inline.HasField("chunk_bytes") else default_chunk_bytes
    return OutputSettings(
        element_type=DATA_TYPES.to_inner(message.data_type),
        as_sent=message.order == config_pb2.RESULT_ORDER_AS_SENT,
        chunk_bytes=chunk_bytes,
        bypass_cache=message.bypass_cache,
        transport=transport,
    )


def processor_message(config: KimiConfig) -> config_pb2.ProcessorConfig:
    """The typed message of a config, every field present."""
    kimi = config_pb2.KimiConfig(
        patch_size=config.patch_size,
        merge_kernel_size=config.merge_kernel_size,
        in_patch_limit=config.in_patch_limit,
        patch_limit_on_one_side=config.patch_limit_on_one_side,
        fixed_output_tokens=config.fixed_output_tokens,
        image_mean=_channel_message(config.image_mean),
        image_std=_channel_message(config.image_std),
        transparent_bg_config=_background_message(config.transparent_background),
        transparent_bg_fill_stage=FILL_STAGES.to_wire(config.transparent_fill_stage),
        resample_kernel=RESAMPLE_KERNELS.to_wire(config.resample_kernel),
        orientation_policy=ORIENTATION_POLICIES.to_wire(config.orientation),
    )
    return config_pb2.ProcessorConfig(kimi=kimi)


def _transport(message: config_pb2.OutputConfig) -> Transport | None:
    match message.WhichOneof("transport"):
        case "inline":
            return Inline()
        case "shared_memory":
            probe = message.shared_memory.probe
            return SharedMemorySegments(
                Probe(probe.name, probe.nonce) if message.shared_memory.HasField("probe") else None
            )
        case "cuda_ipc":
            wanted = message.cuda_ipc
            return CudaIpc(wanted.boot_id, wanted.pid_namespace, tuple(wanted.device_uuids))
        case None:
            return None


def _kimi(message: config_pb2.KimiConfig) -> KimiConfig:
    return KimiConfig(
        patch_size=message.patch_size,
        merge_kernel_size=message.merge_kernel_size,
        in_patch_limit=message.in_patch_limit,
        patch_limit_on_one_side=message.patch_limit_on_one_side,
        image_mean=(message.image_mean.red, message.image_mean.green, message.image_mean.blue),
        image_std=(message.image_std.red, message.image_std.green, message.image_std.blue),
        fixed_output_tokens=message.fixed_output_tokens if message.HasField("fixed_output_tokens") else None,
        transparent_background=_background(message.transparent_bg_config)
        if message.HasField("transparent_bg_config")
        else None,
        transparent_fill_stage=FILL_STAGES.to_inner(message.transparent_bg_fill_stage)
        if message.HasField("transparent_bg_fill_stage")
        else FillStage.BEFORE_RESIZE,
        resample_kernel=_kernel(message) or ResampleKernel.PILLOW_13,
        orientation=_orientation(message) or OrientationPolicy.KEEP,
    )


def _checkpoint(message: config_pb2.CheckpointConfig, path: str) -> tuple[KimiConfig, tuple[ConfigViolation, ...]]:
    try:
        parsed = parse_checkpoint_json(
            message.preprocessor_config_json,
            resample_kernel=_kernel(message) or ResampleKernel.PILLOW_13,
            orientation=_orientation(message) or OrientationPolicy.KEEP,
        )
    except ConfigFault as fault:
        # Keys are named as in the file; a text that has no keys at all is named by its own field.
        raise ConfigFault(
            tuple(ConfigViolation(found.field or path, found.description) for found in fault.violations)
        ) from None
    return parsed.config, parsed.warnings


def _preset(message: config_pb2.PresetConfig, path: str, presets: Mapping[str, KimiConfig]) -> KimiConfig:
    try:
        preset = presets[message.name]
    except KeyError:
        known = ", ".join(sorted(presets))
        raise ConfigFault((ConfigViolation(path, f"Expected one of {known}, got {message.name!r}"),)) from None
    return replace(
        preset,
        resample_kernel=_kernel(message) or preset.resample_kernel,
        orientation=_orientation(message) or preset.orientation,
    )


def _kernel(
    message: config_pb2.KimiConfig | config_pb2.CheckpointConfig | config_pb2.PresetConfig,
) -> ResampleKernel | None:
    return RESAMPLE_KERNELS.to_inner(message.resample_kernel) if message.HasField("resample_kernel") else None


def _orientation(
    message: config_pb2.KimiConfig | config_pb2.CheckpointConfig | config_pb2.PresetConfig,
) -> OrientationPolicy | None:
    return ORIENTATION_POLICIES.to_inner(message.orientation_policy) if message.HasField("orientation_policy") else None


def _background(message: config_pb2.TransparentBackground) -> Background:
    default = Background(BACKGROUND_PATTERNS.to_inner(message.pattern))
    return Background(
        pattern=default.pattern,
        chessboard_square_size=message.chessboard_square_size
        if message.HasField("chessboard_square_size")
        else default.chessboard_square_size,
        chessboard_square_on_top_left=message.chessboard_square_on_top_left
        if message.HasField("chessboard_square_on_top_left")
        else default.chessboard_square_on_top_left,
        chessboard_white_value=message.chessboard_white_value
        if message.HasField("chessboard_white_value")
        else default.chessboard_white_value,
        chessboard_gray_value=message.chessboard_gray_value
        if message.HasField("chessboard_gray_value")
        else default.chessboard_gray_value,
    )


def _background_message(background: Background | None) -> config_pb2.TransparentBackground | None:
    if background is None:
        return None
    return config_pb2.TransparentBackground(
        pattern=BACKGROUND_PATTERNS.to_wire(background.pattern),
        chessboard_square_size=background.chessboard_square_size,
        chessboard_square_on_top_left=background.chessboard_square_on_top_left,
        chessboard_white_value=background.chessboard_white_value,
        chessboard_gray_value=background.chessboard_gray_value,
    )


def _channel_message(values: tuple[float, float, float]) -> config_pb2.ChannelValues:
    red, green, blue = values
    return config_pb2.ChannelValues(red=red, green=green, blue=blue)
