"""GLM-4.xV as the registry of families has it: its JSON and its preset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.glm_vl.config import GlmVlConfig
from monopath_server.processors.pixel_bounds import BOUND_KEYS, read_bounds
from monopath_server.processors.transformers_json import KeyReader
from monopath_server.processors.windowed import CLIP_MEAN, CLIP_STD

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
    keys = KeyReader(values, prefix)
    # min_pixels and max_pixels are no keys of this family's: where a file has them, they are ignored.
    common = keys.common(BOUND_KEYS)
    (min_pixels, max_pixels), names = read_bounds(keys, _DEFAULT_BOUNDS, reads_pixels=False)
    config = GlmVlConfig(
        patch_size=common.patch_size,
        temporal_patch_size=common.temporal_patch_size,
        merge_size=common.merge_size,
        min_pixels=min_pixels,
        max_pixels=max_pixels,
        image_mean=common.image_mean,
        image_std=common.image_std,
    )
    keys.check(config, names)
    return ParsedConfig(config, tuple(keys.warnings))


GLM_VL = Family(
    name="glm_vl",
    image_processor_types=frozenset({"Glm4vImageProcessor", "Glm46VImageProcessor"}),
    own_keys=frozenset(),
    parse=_parse,
    presets=PRESETS,
)
