"""Qwen-VL as the registry of families has it: its JSON and its presets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.pixel_bounds import BOUND_KEYS, read_bounds
from monopath_server.processors.qwen_vl.config import QwenVlConfig
from monopath_server.processors.transformers_json import KeyReader
from monopath_server.processors.windowed import CLIP_MEAN, CLIP_STD

__all__ = ["PRESETS", "QWEN_VL"]

_HALF = (0.5, 0.5, 0.5)
_DEFAULT_BOUNDS = (3_136, 1_003_520)

_QWEN2 = QwenVlConfig(
    patch_size=14,
    temporal_patch_size=2,
    merge_size=2,
    min_pixels=3_136,
    max_pixels=12_845_056,
    image_mean=CLIP_MEAN,
    image_std=CLIP_STD,
)
_QWEN3 = QwenVlConfig(
    patch_size=16,
    temporal_patch_size=2,
    merge_size=2,
    min_pixels=65_536,
    max_pixels=16_777_216,
    image_mean=_HALF,
    image_std=_HALF,
)
PRESETS: Mapping[str, QwenVlConfig] = MappingProxyType(
    {"qwen2-vl": _QWEN2, "qwen2.5-vl": _QWEN2, "qwen3-vl": _QWEN3, "qwen3.5": _QWEN3}
)


def _parse(values: dict[str, object], prefix: str) -> ParsedConfig[QwenVlConfig]:
    keys = KeyReader(values, prefix)
    common = keys.common(BOUND_KEYS)
    (min_pixels, max_pixels), names = read_bounds(keys, _DEFAULT_BOUNDS)
    config = QwenVlConfig(
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


QWEN_VL = Family(
    name="qwen_vl",
    image_processor_types=frozenset({"Qwen2VLImageProcessor"}),
    own_keys=frozenset(),
    parse=_parse,
    presets=PRESETS,
)
