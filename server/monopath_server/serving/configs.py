"""Processor and output configs: from their messages, checked, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from monopath.v1 import config_pb2
from monopath_server.delivery.shared_memory import Probe
from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors.checkpoint_json import parse_checkpoint_json
from monopath_server.processors.digest import config_digest
from monopath_server.processors.family import Overrides, ParsedConfig, ProcessorConfig, overridden
from monopath_server.processors.types import ElementType
from monopath_server.serving.enums import DATA_TYPES
from monopath_server.serving.families.registry import read_typed
from monopath_server.serving.families.values import alpha_or_none, kernel_or_none, orientation_or_none
from monopath_server.serving.rules import find_violations

__all__ = [
    "CudaIpc",
    "Inline",
    "OutputSettings",
    "ResolvedProcessor",
    "SharedMemorySegments",
    "Transport",
    "output_settings",
    "resolve_processor",
]


@dataclass(frozen=True, slots=True)
class ResolvedProcessor:
    """A processor config that holds."""

    config: ProcessorConfig
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
    groups_responses: bool
    """What is there at the same time may come in one message."""
    transport: Transport


def resolve_processor(
    message: config_pb2.ProcessorConfig, prefix: str, presets: Mapping[str, ProcessorConfig]
) -> ResolvedProcessor:
    """Turn any of the three sources into the typed config. `prefix` is the path of `message` in its request.

    Raises:
        ConfigFault: with every wrong or missing field at once.
    """
    violations = find_violations(message, prefix)
    if violations:
        raise ConfigFault(violations)
    warnings: tuple[ConfigViolation, ...] = ()
    source = message.WhichOneof("source")
    match source:
        case "checkpoint":
            parsed = _checkpoint(message.checkpoint, f"{prefix}.checkpoint")
            config, warnings = parsed.config, parsed.warnings
        case "preset":
            config = _preset(message.preset, f"{prefix}.preset", presets)
        case None:
            arms = ", ".join(field.name for field in message.DESCRIPTOR.oneofs_by_name["source"].fields)
            raise ConfigFault((ConfigViolation(f"{prefix}.source", f"Expected one of {arms}, got none"),))
        case _:
            config = _typed(message, source, f"{prefix}.{source}")
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
        groups_responses=message.group_responses,
        transport=transport,
    )


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


def _checkpoint(message: config_pb2.CheckpointConfig, prefix: str) -> ParsedConfig[ProcessorConfig]:
    try:
        parsed = parse_checkpoint_json(message.preprocessor_config_json)
    except ConfigFault as fault:
        # Keys are named as in the file; a text that has no keys at all is named by its own field.
        path = f"{prefix}.preprocessor_config_json"
        raise ConfigFault(
            tuple(ConfigViolation(found.field or path, found.description) for found in fault.violations)
        ) from None
    return replace(parsed, config=_with_choices(parsed.config, message, prefix))


def _preset(message: config_pb2.PresetConfig, prefix: str, presets: Mapping[str, ProcessorConfig]) -> ProcessorConfig:
    try:
        preset = presets[message.name]
    except KeyError:
        known = ", ".join(sorted(presets))
        raise ConfigFault(
            (ConfigViolation(f"{prefix}.name", f"Expected one of {known}, got {message.name!r}"),)
        ) from None
    return _with_choices(preset, message, prefix)


def _typed(message: config_pb2.ProcessorConfig, arm: str, prefix: str) -> ProcessorConfig:
    try:
        config = read_typed(message, arm)
    except ConfigFault as fault:
        raise ConfigFault(_under(prefix, fault.violations)) from None
    if violations := config.violations():
        raise ConfigFault(_under(prefix, violations))
    return config


def _with_choices(
    config: ProcessorConfig, message: config_pb2.CheckpointConfig | config_pb2.PresetConfig, prefix: str
) -> ProcessorConfig:
    """Apply what a message asks for besides the config itself."""
    try:
        return overridden(
            config,
            Overrides(
                resample_kernel=kernel_or_none(message),
                orientation=orientation_or_none(message),
                alpha=alpha_or_none(message),
            ),
        )
    except ConfigFault as fault:
        raise ConfigFault(_under(prefix, fault.violations)) from None


def _under(prefix: str, violations: Iterable[ConfigViolation]) -> tuple[ConfigViolation, ...]:
    return tuple(ConfigViolation(f"{prefix}.{found.field}", found.description) for found in violations)
