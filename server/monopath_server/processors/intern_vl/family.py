"""InternVL as the registry of families has it: the two kinds of files, and its presets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors import json_values
from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD, IMAGENET_MEAN, IMAGENET_STD
from monopath_server.processors.family import Family, ParsedConfig
from monopath_server.processors.intern_vl.config import InternVlConfig
from monopath_server.processors.json_reader import ObjectReader
from monopath_server.processors.json_values import RefusedValue, show
from monopath_server.processors.transformers_json import KeyReader
from monopath_server.processors.types import ResampleFilter, ResampleKernel

__all__ = ["INTERN_VL", "PRESETS"]

_NATIVE = InternVlConfig(
    tile_size=448,
    min_tiles=1,
    max_tiles=12,
    has_thumbnail=True,
    tokens_per_tile=256,
    image_mean=IMAGENET_MEAN,
    image_std=IMAGENET_STD,
)
_CHAT = dataclasses.replace(_NATIVE, resample_kernel=ResampleKernel.PILLOW_13)
PRESETS: Mapping[str, InternVlConfig] = MappingProxyType({"internvl2.5": _CHAT, "internvl3-hf": _NATIVE})

_CHAT_KEYS: Final = frozenset({"dynamic_image_size", "max_dynamic_patch", "min_dynamic_patch"})
_NATIVE_KEYS: Final = frozenset({"crop_to_patches", "image_seq_length", "max_patches", "min_patches", "size"})
_CLASS_SIDE_PX: Final = 384


def _parse(values: dict[str, object], prefix: str) -> ParsedConfig[InternVlConfig]:
    return _parse_native(values, prefix) if _CHAT_KEYS.isdisjoint(values) else _parse_chat(values, prefix)


def _parse_chat(values: dict[str, object], prefix: str) -> ParsedConfig[InternVlConfig]:
    """Read the `config.json` of a checkpoint that brings its own code, which has no file for its image processor.

    It is the whole model's, so keys that are not read here are no news.
    """
    violations: list[ConfigViolation] = []
    reader = ObjectReader(values, prefix, violations)
    vision = reader.nested("vision_config") or ObjectReader({}, f"{prefix}vision_config.", violations)
    if values.get("force_image_size") is None:
        tile_size = vision.required("image_size", json_values.integer)
    else:
        tile_size = reader.required("force_image_size", json_values.integer)
    patch_size = vision.required("patch_size", json_values.integer)
    downsample_ratio = reader.required("downsample_ratio", json_values.number)
    is_dynamic = reader.required("dynamic_image_size", json_values.boolean)
    min_tiles = reader.optional("min_dynamic_patch", json_values.integer, 1)
    max_tiles = reader.required("max_dynamic_patch", json_values.integer)
    has_thumbnail = reader.required("use_thumbnail", json_values.boolean)
    reader.optional("pad2square", json_values.false_or_null, None)
    if tile_size is None or patch_size is None or downsample_ratio is None:
        raise ConfigFault(tuple(violations))
    if patch_size < 1:
        violations.append(
            ConfigViolation(f"{prefix}vision_config.patch_size", f"Expected at least 1, got {patch_size}")
        )
        raise ConfigFault(tuple(violations))
    config = dataclasses.replace(
        _CHAT,
        tile_size=tile_size,
        min_tiles=min_tiles if is_dynamic else 1,
        max_tiles=(max_tiles or 1) if is_dynamic else 1,
        has_thumbnail=bool(has_thumbnail and is_dynamic),
        tokens_per_tile=int((tile_size // patch_size) ** 2 * downsample_ratio**2),
    )
    names = {
        "tile_size": "force_image_size",
        "min_tiles": "min_dynamic_patch",
        "max_tiles": "max_dynamic_patch",
        "tokens_per_tile": "downsample_ratio",
    }
    violations += [
        ConfigViolation(prefix + names.get(found.field, found.field), found.description)
        for found in config.violations()
    ]
    if violations:
        raise ConfigFault(tuple(violations))
    return ParsedConfig(config, ())


def _parse_native(values: dict[str, object], prefix: str) -> ParsedConfig[InternVlConfig]:
    """Read the keys of `GotOcr2ImageProcessor`, whose class defaults are not those of InternVL's files."""
    keys = KeyReader(values, prefix)
    keys.steps(_NATIVE_KEYS)
    keys.resample(ResampleFilter.BICUBIC)
    is_tiled = keys.or_default("crop_to_patches", json_values.boolean, False)
    min_tiles, max_tiles = 1, 1
    if is_tiled:
        min_tiles = keys.or_default("min_patches", json_values.integer, 1)
        max_tiles = keys.or_default("max_patches", json_values.integer, 12)
    tokens_per_tile: int | None = None
    if values.get("image_seq_length") is None:
        keys.warnings.append(ConfigViolation(f"{prefix}image_seq_length", "Absent, so that no token count is known"))
    else:
        tokens_per_tile = keys.or_default("image_seq_length", json_values.integer, 1)
    config = InternVlConfig(
        tile_size=keys.or_default("size", _square, _CLASS_SIDE_PX),
        min_tiles=min_tiles,
        max_tiles=max_tiles,
        has_thumbnail=True,
        tokens_per_tile=tokens_per_tile,
        image_mean=keys.or_default("image_mean", json_values.channel_values, CLIP_MEAN),
        image_std=keys.or_default("image_std", json_values.channel_values, CLIP_STD),
    )
    keys.check(
        config,
        {
            "tile_size": "size",
            "min_tiles": "min_patches",
            "max_tiles": "max_patches",
            "tokens_per_tile": "image_seq_length",
        },
    )
    return ParsedConfig(config, tuple(keys.warnings))


def _square(value: object) -> int:
    """Height and width, which have to be one."""
    if isinstance(value, dict):
        sides = cast("dict[str, object]", value)
        height, width = (json_values.integer(sides.get(side)) for side in ("height", "width"))
        if height == width:
            return height
    raise RefusedValue(f"Expected an object with an equal height and width, got {show(value)}")


INTERN_VL = Family(
    name="intern_vl",
    image_processor_types=frozenset({"GotOcr2ImageProcessor"}),
    own_keys=_CHAT_KEYS,
    parse=_parse,
    presets=PRESETS,
    outer_keys=frozenset({"image_seq_length"}),
)
