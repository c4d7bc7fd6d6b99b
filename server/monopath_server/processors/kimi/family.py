"""Kimi-K2.5 and Kimi-K3, as the registry of families has them."""

from __future__ import annotations

from monopath_server.processors.family import Family
from monopath_server.processors.kimi.checkpoint_json import OWN_KEYS, parse_keys
from monopath_server.processors.kimi.presets import PRESETS

__all__ = ["KIMI"]

KIMI = Family(
    name="kimi",
    image_processor_types=frozenset({"KimiK25VisionProcessor", "KimiK3VisionProcessor"}),
    own_keys=OWN_KEYS,
    parse=parse_keys,
    presets=PRESETS,
)
