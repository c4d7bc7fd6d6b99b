"""The two forms of bounds of an area: `size` with two edges, which are areas, and `min_pixels` with `max_pixels`."""

from __future__ import annotations

from typing import TypeVar, cast

from monopath_server.faults import ConfigViolation
from monopath_server.processors import json_values
from monopath_server.processors.area_bounds import AreaBoundedConfig
from monopath_server.processors.family import ParsedConfig
from monopath_server.processors.json_reader import ObjectReader
from monopath_server.processors.json_values import show
from monopath_server.processors.transformers_json import KeyReader

__all__ = ["parse_area_bounded"]

ConfigT = TypeVar("ConfigT", bound=AreaBoundedConfig)

_BOUND_KEYS = frozenset({"size", "min_pixels", "max_pixels"})

_EDGES = ("shortest_edge", "longest_edge")
_PIXELS = ("min_pixels", "max_pixels")


def parse_area_bounded(
    values: dict[str, object],
    prefix: str,
    config_type: type[ConfigT],
    default_bounds: tuple[int, int],
    *,
    reads_pixels: bool,
) -> ParsedConfig[ConfigT]:
    """Read the keys of a family that bounds areas.

    Args:
        values: The object that holds the keys.
        prefix: Its path.
        config_type: The family's config.
        default_bounds: Smallest and largest area of its class.
        reads_pixels: Whether `min_pixels` and `max_pixels` are keys of the family's; if not, they are ignored.

    Raises:
        ConfigFault: with every bad key at once.
    """
    keys = KeyReader(values, prefix)
    fields = keys.windowed(_BOUND_KEYS)
    (min_pixels, max_pixels), names = _read_bounds(keys, default_bounds, reads_pixels=reads_pixels)
    config = config_type(
        patch_size=fields.patch_size,
        temporal_patch_size=fields.temporal_patch_size,
        merge_size=fields.merge_size,
        min_pixels=min_pixels,
        max_pixels=max_pixels,
        image_mean=fields.image_mean,
        image_std=fields.image_std,
    )
    keys.check(config, names)
    return ParsedConfig(config, tuple(keys.warnings))


def _read_bounds(
    keys: KeyReader, defaults: tuple[int, int], *, reads_pixels: bool
) -> tuple[tuple[int, int], dict[str, str]]:
    """Read the smallest and the largest area, and how the file calls them.

    `size` counts first, else the defaults; then `min_pixels` and `max_pixels` replace one each, where they are numbers.
    Of a `size` without both edges nothing can be told, unless the other form says all.
    """
    found: list[int | None] = list(_edges(keys, is_needed=not (reads_pixels and _has_both(keys))))
    names = [
        f"size.{edge}" if number is not None else pixels
        for edge, pixels, number in zip(_EDGES, _PIXELS, found, strict=True)
    ]
    for index, key in enumerate(_PIXELS if reads_pixels else ()):
        if keys.values.get(key) is not None:
            found[index] = ObjectReader(keys.values, keys.prefix, keys.violations).optional(key, json_values.integer, 1)
            names[index] = key
    for index, number in enumerate(found):
        if number is None:
            found[index] = defaults[index]
            if keys.values.get("size") is None:
                keys.warnings.append(
                    ConfigViolation(
                        keys.prefix + (names[index] if reads_pixels else f"size.{_EDGES[index]}"),
                        f"Absent, taken as {defaults[index]}",
                    )
                )
    bounds = cast("tuple[int, int]", tuple(found))
    return bounds, dict(zip(_PIXELS, names, strict=True))


def _has_both(keys: KeyReader) -> bool:
    return all(keys.values.get(key) is not None for key in _PIXELS)


def _edges(keys: KeyReader, *, is_needed: bool) -> tuple[int | None, int | None]:
    size = keys.values.get("size")
    if size is None:
        return None, None
    if not isinstance(size, dict):
        if is_needed:
            keys.violations.append(
                ConfigViolation(
                    f"{keys.prefix}size", f"Expected an object with {' and '.join(_EDGES)}, got {show(size)}"
                )
            )
        return None, None
    edges = ObjectReader(cast("dict[str, object]", size), f"{keys.prefix}size.", keys.violations)
    if not is_needed:
        return edges.optional(_EDGES[0], json_values.integer_or_none, None), edges.optional(
            _EDGES[1], json_values.integer_or_none, None
        )
    return edges.required(_EDGES[0], json_values.integer), edges.required(_EDGES[1], json_values.integer)
