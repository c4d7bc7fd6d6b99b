"""GLM-4.xV as the registry of families has it: its JSON and its preset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD
from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.glm_vl.config import GlmVlConfig
from monopath_server.processors.pixel_bounds import parse_area_bounded

__all__ = ["GLM_VL", "PRESETS"]

_DEFAULT_BOUNDS = (12_544, 11_760_000)

PRESETS: Mapping[str, GlmVlConfig] = MappingProxyType(
    {
        "glm-4.1v": GlmVlConfig(
            patch_size=14,
            temporal_patch_size=2,
            merge_size=2,
            min_pixels=12_544,
            max_pixels=9_633_792,
            image_mean=CLIP_MEAN,
            image_std=CLIP_STD,
        )
    }
)


def _parse(values: dict[str, object], prefix: str) -> ParsedConfig[GlmVlConfig]:
    # min_pixels and max_pixels are no keys of this family.
    return parse_area_bounded(values, prefix, GlmVlConfig, _DEFAULT_BOUNDS, reads_pixels=False)


GLM_VL = Family(
    name="glm_vl",
    image_processor_types=frozenset({"Glm4vImageProcessor", "Glm46VImageProcessor"}),
    own_keys=frozenset(),
    parse=_parse,
    presets=PRESETS,
)
