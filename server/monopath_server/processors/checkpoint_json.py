"""Finds a checkpoint's family in its JSON, never in a name, and reads its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from monopath_server.processors import families
from monopath_server.processors.family import Family, Overrides, ParsedConfig, ProcessorConfig, overridden
from monopath_server.processors.json_reader import load_object, refuse
from monopath_server.processors.json_values import show

__all__ = ["parse_checkpoint_json"]

_NESTED_KEY: Final = "image_processor"
_TYPE_KEYS: Final = ("image_processor_type", "feature_extractor_type")
_AUTO_MAP_KEY: Final = "auto_map"
_AUTO_MAP_ENTRY: Final = "AutoImageProcessor"
_BACKENDS: Final = ("Fast", "Pil")


def parse_checkpoint_json(text: str, overrides: Overrides | None = None) -> ParsedConfig[ProcessorConfig]:
    """Parse a `preprocessor_config.json`, or a `processor_config.json`, whose `image_processor` object then counts.

    Raises:
        ConfigFault: the text is no JSON object, its family is unknown, keys are missing or wrong, or the family has no
            such override; one violation for each of them, named by the key's path in the text.
    """
    root, prefix = load_object(text), ""
    outer: dict[str, object] = {}
    if _NESTED_KEY in root:
        nested = root[_NESTED_KEY]
        if not isinstance(nested, dict):
            refuse(_NESTED_KEY, f"Expected an object, got {show(nested)}")
        outer, root, prefix = root, cast("dict[str, object]", nested), f"{_NESTED_KEY}."
    family = _family(root, prefix, families.FAMILIES)
    beside = {key: value for key, value in outer.items() if key in family.outer_keys}
    parsed = family.parse({**beside, **root}, prefix)
    if overrides is None:
        return parsed
    return ParsedConfig(overridden(parsed.config, overrides), parsed.warnings)


def _family(root: dict[str, object], prefix: str, known: Sequence[Family]) -> Family:
    declared = _declared_type(root)
    for family in known:
        if declared is not None and _without_backend(declared[1]) in family.image_processor_types:
            return family
    for family in known:
        # A class of the checkpoint's own has any name; keys that no other family has are as good.
        if not family.own_keys.isdisjoint(root):
            return family
    names = ", ".join(sorted(name for family in known for name in family.image_processor_types))
    key, found = (_TYPE_KEYS[0], "none") if declared is None else (declared[0], show(declared[1]))
    return refuse(prefix + key, f"Expected one of {names}, got {found}")


def _declared_type(root: dict[str, object]) -> tuple[str, str] | None:
    """The key and the name of the processor's class, where a file says it."""
    for key in _TYPE_KEYS:
        value = root.get(key)
        if isinstance(value, str):
            return key, value
    auto_map = root.get(_AUTO_MAP_KEY)
    entry = auto_map.get(_AUTO_MAP_ENTRY) if isinstance(auto_map, dict) else None
    if isinstance(entry, str):
        # "module.Class", or "repository--module.Class".
        return f"{_AUTO_MAP_KEY}.{_AUTO_MAP_ENTRY}", entry.rpartition(".")[2]
    return None


def _without_backend(name: str) -> str:
    for suffix in _BACKENDS:
        name = name.removesuffix(suffix)
    return name
