"""The processor configs that `monopath verify` runs, each once for the server and once for the reference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from monopath import Alpha, Client, Orientation, ResampleKernel
from monopath._arguments import ProcessorArguments
from monopath.cli.faults import UserFault, needs_server
from monopath.cli.options import read_text
from monopath.cli.verify_presets import alpha_of, checkpoint_of
from monopath.cli.verify_small import set_small_limits

try:
    from monopath_server.reference import RELEASED_PRESETS, AnyReference, ReferenceConfig, reference_config
    from monopath_server.reference.kimi_vl import KimiVlReference
except ModuleNotFoundError as error:
    raise needs_server("`monopath verify`", error) from None

__all__ = ["CheckedConfig", "checked_configs", "distinct_presets", "with_small_limits"]

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
    alpha: Alpha = Alpha.DROP
    """Of the reference; the server is told by the config itself."""

    @property
    def resizes_most(self) -> bool:
        """Whether small images are resized without small limits, and torchvision's resize is known: such families
        enlarge, or have one size for all images."""
        return not isinstance(self.reference(ResampleKernel.PILLOW_13), ReferenceConfig | KimiVlReference)

    @property
    def kernels(self) -> tuple[ResampleKernel, ...]:
        """The resize arithmetics that the family has."""
        pillow = tuple(kernel for kernel in ResampleKernel if kernel is not ResampleKernel.ATEN_U8)
        return tuple(ResampleKernel) if self.resizes_most else pillow

    def arguments(self, kernel: ResampleKernel) -> ProcessorArguments:
        """Return what opens a stream under this config and resize arithmetic."""
        return {**self.processor, "resample_kernel": kernel, "orientation": self.orientation}

    def reference(self, kernel: ResampleKernel) -> AnyReference:
        """Return the same for the reference. Raises UserFault for a config that it cannot read."""
        try:
            return reference_config(self.checkpoint, kernel.name, self.orientation.name, self.alpha.name)
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
        checkpoint = RELEASED_PRESETS.get(name) or checkpoint_of(of_server[name].processor)
        alpha = alpha_of(of_server[name].processor)
        configs.append(CheckedConfig(name, {"preset": name}, checkpoint, orientation, alpha=alpha))
    for file in files:
        text = read_text(file, "--config")
        client.plan([(1, 1)], checkpoint_json=text)
        checkpoint = _flat(text, file)
        configs.append(CheckedConfig(file.name, {"checkpoint_json": text}, checkpoint, orientation))
    return configs


def distinct_presets() -> list[str]:
    """Return names of released configs, each config once."""
    names: dict[str, str] = {}
    for name, checkpoint in RELEASED_PRESETS.items():
        names.setdefault(json.dumps(checkpoint, sort_keys=True), name)
    return list(names.values())


def with_small_limits(config: CheckedConfig) -> CheckedConfig:
    """Return the config with limits so small that most small images are resized."""
    checkpoint = dict(config.checkpoint)
    reference = config.reference(ResampleKernel.PILLOW_13)
    nested: Mapping[str, Any] = checkpoint
    if isinstance(reference, ReferenceConfig):
        checkpoint.update(_SMALL_LIMITS)
        # The limit of a side is in patches; the padding must leave it whole tokens.
        merge_size = reference.merge_kernel_size
        side_limit = int(_SMALL_LIMITS["patch_limit_on_one_side"])
        checkpoint["patch_limit_on_one_side"] = -(-side_limit // merge_size) * merge_size
        nested = {"media_proc_cfg": checkpoint}
    else:
        set_small_limits(checkpoint, reference)
    return replace(
        config,
        name=f"{config.name}/small",
        processor={"checkpoint_json": json.dumps(nested)},
        checkpoint=checkpoint,
        is_small=True,
        alpha=Alpha.DROP,
    )


def _flat(text: str, file: Path) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise UserFault(f"--config: expected JSON in {file}: {error}") from None
    nested = parsed.get("image_processor", parsed) if isinstance(parsed, dict) else None
    nested = nested.get("media_proc_cfg", nested) if isinstance(nested, dict) else None
    if not isinstance(nested, dict):
        raise UserFault(f"--config: expected a JSON object in {file}, got {type(parsed).__name__}")
    return nested
