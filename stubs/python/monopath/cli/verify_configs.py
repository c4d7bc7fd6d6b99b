"""The processor configs that `monopath verify` runs, each once for the server and once for the reference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from monopath import Client, Orientation, Preset, ResampleKernel
from monopath._arguments import ProcessorArguments
from monopath.cli.faults import UserFault, needs_server
from monopath.cli.options import read_text
from monopath.v1 import config_pb2

try:
    from monopath_server.reference import RELEASED_PRESETS, ReferenceConfig
except ModuleNotFoundError as error:
    raise needs_server("`monopath verify`", error) from None

__all__ = ["CheckedConfig", "checked_configs", "with_small_limits"]

_SMALL_LIMITS: Mapping[str, Any] = MappingProxyType(
    {"in_patch_limit": 6, "patch_limit_on_one_side": 8, "fixed_output_tokens": None}
)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedConfig:
    """One config: how the server is told of it, and what the reference reads."""

    name: str
    processor: ProcessorArguments
    checkpoint: Mapping[str, Any]
    """The keys of a `preprocessor_config.json`, flat."""
    orientation: Orientation = Orientation.KEEP
    is_small: bool = False

    def arguments(self, kernel: ResampleKernel) -> ProcessorArguments:
        """Return what opens a stream under this config and resize arithmetic."""
        return {**self.processor, "resample_kernel": kernel, "orientation": self.orientation}

    def reference(self, kernel: ResampleKernel) -> ReferenceConfig:
        """Return the same for the reference. Raises UserFault for a config that it cannot read."""
        try:
            return ReferenceConfig.from_checkpoint_json(self.checkpoint, kernel.name, self.orientation.name)
        except (ValueError, TypeError, KeyError) as error:
            raise UserFault(f"The reference cannot read the config {self.name}: {error}") from None


def checked_configs(
    client: Client, presets: Iterable[str], files: Iterable[Path], orientation: Orientation
) -> list[CheckedConfig]:
    """Return presets and checkpoint files as configs.

    Raises UserFault for a file that cannot be read, and RequestRefused for what the server refuses.
    """
    of_server = {preset.name: preset for preset in client.capabilities().presets}
    configs = []
    for name in presets:
        # Also for a name that the server lacks: that is its to refuse.
        client.plan([(1, 1)], preset=name)
        checkpoint = RELEASED_PRESETS.get(name) or _checkpoint(of_server[name])
        configs.append(CheckedConfig(name, {"preset": name}, checkpoint, orientation))
    for file in files:
        text = read_text(file, "--config")
        client.plan([(1, 1)], checkpoint_json=text)
        checkpoint = _flat(text, file)
        configs.append(CheckedConfig(file.name, {"checkpoint_json": text}, checkpoint, orientation))
    return configs


def with_small_limits(config: CheckedConfig) -> CheckedConfig:
    """Return the config with limits so small that most small images are resized."""
    checkpoint = {**config.checkpoint, **_SMALL_LIMITS}
    # The limit of a side is in patches; the padding must leave it whole tokens.
    merge_size = config.reference(ResampleKernel.PILLOW_13).merge_kernel_size
    checkpoint["patch_limit_on_one_side"] = -(-int(_SMALL_LIMITS["patch_limit_on_one_side"]) // merge_size) * merge_size
    return replace(
        config,
        name=f"{config.name}/small",
        processor={"checkpoint_json": json.dumps({"media_proc_cfg": checkpoint})},
        checkpoint=checkpoint,
        is_small=True,
    )


def _flat(text: str, file: Path) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise UserFault(f"--config: expected JSON in {file}: {error}") from None
    nested = parsed.get("media_proc_cfg", parsed) if isinstance(parsed, dict) else None
    if not isinstance(nested, dict):
        raise UserFault(f"--config: expected a JSON object in {file}, got {type(parsed).__name__}")
    return nested


def _checkpoint(preset: Preset) -> Mapping[str, Any]:
    """Write down a preset that only the server knows, in the words of a `preprocessor_config.json`."""
    kimi = preset.processor.kimi
    checkpoint: dict[str, Any] = {
        "patch_size": kimi.patch_size,
        "merge_kernel_size": kimi.merge_kernel_size,
        "in_patch_limit": kimi.in_patch_limit,
        "patch_limit_on_one_side": kimi.patch_limit_on_one_side,
        "fixed_output_tokens": kimi.fixed_output_tokens if kimi.HasField("fixed_output_tokens") else None,
        "image_mean": _channel_values(kimi.image_mean),
        "image_std": _channel_values(kimi.image_std),
    }
    if kimi.HasField("transparent_bg_fill_stage"):
        stage = config_pb2.TransparentFillStage.Name(kimi.transparent_bg_fill_stage)
        checkpoint["transparent_bg_fill_stage"] = stage.removeprefix("TRANSPARENT_FILL_STAGE_").lower()
    if kimi.HasField("transparent_bg_config"):
        background = kimi.transparent_bg_config
        pattern = config_pb2.BackgroundPattern.Name(background.pattern).removeprefix("BACKGROUND_PATTERN_").lower()
        checkpoint["transparent_bg_config"] = {
            "pattern": pattern,
            **{field.name: value for field, value in background.ListFields() if field.name.startswith("chessboard_")},
        }
    return checkpoint


def _channel_values(values: config_pb2.ChannelValues) -> list[float]:
    return [values.red, values.green, values.blue]
