"""Qwen-VL as the registry of families has it: its JSON and its presets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD, HALF
from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.pixel_bounds import parse_area_bounded
from monopath_server.processors.qwen_vl.config import QwenVlConfig

__all__ = ["PRESETS", "QWEN_VL"]

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
    image_mean=HALF,
    image_std=HALF,
)
PRESETS: Mapping[str, QwenVlConfig] = MappingProxyType(
    {"qwen2-vl": _QWEN2, "qwen2.5-vl": _QWEN2, "qwen3-vl": _QWEN3, "qwen3.5": _QWEN3}
)


def _parse(values: dict[str, object], prefix: str) -> ParsedConfig[QwenVlConfig]:
    return parse_area_bounded(values, prefix, QwenVlConfig, _DEFAULT_BOUNDS, reads_pixels=True)


QWEN_VL = Family(
    name="qwen_vl",
    image_processor_types=frozenset({"Qwen2VLImageProcessor"}),
    own_keys=frozenset(),
    parse=_parse,
    presets=PRESETS,
)
