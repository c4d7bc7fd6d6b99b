"""GLM5-Next as the registry of families has it: its JSON and its preset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath_server.processors import json_values
from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD
from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.glm_next.config import GlmNextConfig
from monopath_server.processors.transformers_json import KeyReader

__all__ = ["GLM_NEXT", "PRESETS"]

PRESETS: Mapping[str, GlmNextConfig] = MappingProxyType(
    {
        "glm5-next": GlmNextConfig(
            patch_size=14,
            temporal_patch_size=2,
            merge_size=2,
            min_image_tokens=16,
            max_image_tokens=8_000,
            image_mean=CLIP_MEAN,
            image_std=CLIP_STD,
        )
    }
)
_OWN_KEYS = frozenset({"patch_expand_factor", "min_image_tokens", "max_image_tokens"})


def _parse(values: dict[str, object], prefix: str) -> ParsedConfig[GlmNextConfig]:
    keys = KeyReader(values, prefix)
    # `size` has no meaning to this family.
    common = keys.windowed(_OWN_KEYS | {"size"})
    config = GlmNextConfig(
        patch_size=common.patch_size,
        temporal_patch_size=common.temporal_patch_size,
        merge_size=common.merge_size,
        image_mean=common.image_mean,
        image_std=common.image_std,
        patch_expand_factor=keys.or_default("patch_expand_factor", json_values.integer, 1),
        min_image_tokens=keys.or_default("min_image_tokens", json_values.integer, 16),
        max_image_tokens=keys.or_default("max_image_tokens", json_values.integer, 8_000),
    )
    keys.check(config)
    return ParsedConfig(config, tuple(keys.warnings))


GLM_NEXT = Family(
    name="glm_next",
    image_processor_types=frozenset({"Glm5NextImageProcessor"}),
    own_keys=_OWN_KEYS,
    parse=_parse,
    presets=PRESETS,
)
