"""CLIP and SigLIP as the registry of families has them: one reader of two classes with other defaults, and presets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from monopath_server.faults import ConfigViolation
from monopath_server.processors import json_values
from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD, HALF
from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.fixed_size.config import FixedSizeConfig
from monopath_server.processors.fixed_size.geometry import ExactResize, Resize, ShortestEdgeResize
from monopath_server.processors.fixed_size.sizes import FIELDS_IN_FILES, crop_size, resize_of
from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.transformers_json import KeyReader
from monopath_server.processors.types import ResampleFilter, Size

__all__ = ["CLIP", "CLIP_PRESETS", "SIGLIP", "SIGLIP_PRESETS"]

_KEYS: Final = frozenset({"crop_size", "do_center_crop", "patch_size", "size", "use_square_size"})
_OUTER_KEYS: Final = frozenset({"patch_size"})


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What a class takes for absent keys."""

    resize: Resize
    crop_size: Size | None
    """None: the class does not crop."""
    image_mean: ChannelValues
    image_std: ChannelValues
    class_token_count: int


_CLIP_DEFAULTS = _Defaults(ShortestEdgeResize(224), Size(224, 224), CLIP_MEAN, CLIP_STD, 1)
_SIGLIP_DEFAULTS = _Defaults(ExactResize(224, 224), None, HALF, HALF, 0)

_CLIP_336 = FixedSizeConfig(
    resize=ShortestEdgeResize(336),
    crop_size=Size(336, 336),
    image_mean=CLIP_MEAN,
    image_std=CLIP_STD,
    patch_size=14,
    class_token_count=1,
)
_SIGLIP_384 = FixedSizeConfig(
    resize=ExactResize(384, 384), crop_size=None, image_mean=HALF, image_std=HALF, patch_size=14
)
CLIP_PRESETS: Mapping[str, FixedSizeConfig] = MappingProxyType(
    {
        "clip-vit-l-14": dataclasses.replace(_CLIP_336, resize=ShortestEdgeResize(224), crop_size=Size(224, 224)),
        "clip-vit-l-14-336": _CLIP_336,
    }
)
SIGLIP_PRESETS: Mapping[str, FixedSizeConfig] = MappingProxyType(
    {
        "siglip-so400m-14-224": dataclasses.replace(_SIGLIP_384, resize=ExactResize(224, 224)),
        "siglip-so400m-14-384": _SIGLIP_384,
    }
)


def _parse(values: dict[str, object], prefix: str, defaults: _Defaults) -> ParsedConfig[FixedSizeConfig]:
    keys = KeyReader(values, prefix)
    keys.steps(_KEYS)
    patch_size: int | None = None
    if values.get("patch_size") is None:
        keys.warnings.append(ConfigViolation(f"{prefix}patch_size", "Absent, so that no token count is known"))
    else:
        patch_size = keys.or_default("patch_size", json_values.integer, 1)
    config = FixedSizeConfig(
        resize=resize_of(keys, defaults.resize),
        crop_size=crop_size(keys, defaults.crop_size),
        image_mean=keys.or_default("image_mean", json_values.channel_values, defaults.image_mean),
        image_std=keys.or_default("image_std", json_values.channel_values, defaults.image_std),
        resample_filter=keys.resample(ResampleFilter.BICUBIC, ResampleFilter.BILINEAR),
        patch_size=patch_size,
        class_token_count=0 if patch_size is None else defaults.class_token_count,
    )
    keys.check(config, FIELDS_IN_FILES)
    return ParsedConfig(config, tuple(keys.warnings))


CLIP = Family(
    name="clip",
    image_processor_types=frozenset({"CLIPFeatureExtractor", "CLIPImageProcessor"}),
    own_keys=frozenset(),
    parse=lambda values, prefix: _parse(values, prefix, _CLIP_DEFAULTS),
    presets=CLIP_PRESETS,
    outer_keys=_OUTER_KEYS,
)
SIGLIP = Family(
    name="siglip",
    image_processor_types=frozenset({"SiglipImageProcessor"}),
    own_keys=frozenset(),
    parse=lambda values, prefix: _parse(values, prefix, _SIGLIP_DEFAULTS),
    presets=SIGLIP_PRESETS,
    outer_keys=_OUTER_KEYS,
)
