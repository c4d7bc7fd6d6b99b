"""The configs that ship with released checkpoints, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath_server.processors.families import FAMILIES
from monopath_server.processors.family import ProcessorConfig

__all__ = ["PRESETS"]

PRESETS: Mapping[str, ProcessorConfig] = MappingProxyType(
    {name: config for family in FAMILIES for name, config in family.presets.items()}
)
