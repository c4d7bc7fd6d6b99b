"""Kimi-VL as the registry of families has it: its JSON and its presets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors import json_values
from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.json_reader import IGNORED_KEYS, ObjectReader
from monopath_server.processors.kimi_vl.config import KimiVlConfig

__all__ = ["KIMI_VL", "PRESETS"]

_HALF = (0.5, 0.5, 0.5)
_A3B = KimiVlConfig(patch_size=14, merge_kernel_size=2, in_token_limit=4_096, image_mean=_HALF, image_std=_HALF)

PRESETS: Mapping[str, KimiVlConfig] = MappingProxyType(
    {"kimi-vl-a3b": _A3B, "kimi-vl-a3b-2506": dataclasses.replace(_A3B, in_token_limit=16_384)}
)

_OWN_KEYS: Final = frozenset({"in_token_limit"})
# num_pooled_tokens is in released files, and the checkpoint's code never reads it.
_KNOWN_KEYS: Final = IGNORED_KEYS | {
    "image_mean",
    "image_std",
    "in_token_limit",
    "merge_kernel_size",
    "num_pooled_tokens",
    "pad_input",
    "patch_size",
}


def _parse(values: dict[str, object], prefix: str) -> ParsedConfig[KimiVlConfig]:
    violations: list[ConfigViolation] = []
    reader = ObjectReader(values, prefix, violations)
    warnings = reader.unknown_keys(_KNOWN_KEYS)
    patch_size = reader.required("patch_size", json_values.integer)
    merge_kernel_size = reader.required("merge_kernel_size", json_values.merge_kernel_size)
    in_token_limit = reader.required("in_token_limit", json_values.integer)
    image_mean = reader.required("image_mean", json_values.channel_values)
    image_std = reader.required("image_std", json_values.channel_values)
    pad_input = reader.required("pad_input", json_values.boolean)
    # Stand-ins for what was refused above let the range checks see every other value too.
    config = KimiVlConfig(
        patch_size=patch_size or 1,
        merge_kernel_size=merge_kernel_size or 1,
        in_token_limit=in_token_limit or 1,
        image_mean=(0.0, 0.0, 0.0) if image_mean is None else image_mean,
        image_std=(1.0, 1.0, 1.0) if image_std is None else image_std,
        pad_input=pad_input is not False,
    )
    violations += [ConfigViolation(prefix + found.field, found.description) for found in config.violations()]
    if violations:
        raise ConfigFault(tuple(violations))
    return ParsedConfig(config, tuple(warnings))


KIMI_VL = Family(
    name="kimi_vl",
    image_processor_types=frozenset({"KimiVLImageProcessor"}),
    own_keys=_OWN_KEYS,
    parse=_parse,
    presets=PRESETS,
)
