"""The forms that `size` and `crop_size` have in the files of CLIP and SigLIP."""

from __future__ import annotations

from typing import Final, cast

from monopath_server.faults import ConfigViolation
from monopath_server.processors import json_values
from monopath_server.processors.fixed_size.geometry import ExactResize, Resize, ShortestEdgeResize
from monopath_server.processors.json_reader import ObjectReader
from monopath_server.processors.transformers_json import KeyReader
from monopath_server.processors.types import Size

__all__ = ["FIELDS_IN_FILES", "crop_size", "resize_of"]

FIELDS_IN_FILES: Final = {
    "shortest_edge.length_px": "size.shortest_edge",
    "shortest_edge.longest_edge_px": "size.longest_edge",
    "exact_size.height_px": "size.height",
    "exact_size.width_px": "size.width",
    "crop_size.height_px": "crop_size.height",
    "crop_size.width_px": "crop_size.width",
}
"""What the fields of a config are called in a file."""


def resize_of(keys: KeyReader, default: Resize) -> Resize:
    """Read `size`: one number, a shortest edge with or without a longest, or height and width.

    A number is the shortest edge, in files of SigLIP too; where `use_square_size` is true, it is both sides.
    """
    size = keys.values.get("size")
    if size is None:
        keys.warnings.append(ConfigViolation(f"{keys.prefix}size", f"Absent, taken as {_text(default)}"))
        return default
    reader = ObjectReader(keys.values, keys.prefix, keys.violations)
    if not isinstance(size, dict):
        number = reader.optional("size", json_values.integer, 1)
        is_square = reader.optional("use_square_size", _boolean_or_none, None)
        return ExactResize(number, number) if is_square else ShortestEdgeResize(number)
    found = cast("dict[str, object]", size)
    sides = ObjectReader(found, f"{keys.prefix}size.", keys.violations)
    if found.get("shortest_edge") is not None:
        return ShortestEdgeResize(
            sides.optional("shortest_edge", json_values.integer, 1),
            sides.optional("longest_edge", json_values.integer_or_none, None),
        )
    height, width = _sides(sides)
    return ExactResize(height, width)


def crop_size(keys: KeyReader, default: Size | None) -> Size | None:
    """Read `do_center_crop` and `crop_size`: one number, or height and width. None: nothing is cropped.

    `default` is None for a class that does not crop; a file that wants it all the same is refused.
    """
    reader = ObjectReader(keys.values, keys.prefix, keys.violations)
    if default is None:
        reader.optional("do_center_crop", json_values.false_or_null, None)
        return None
    if reader.optional("do_center_crop", _boolean_or_none, None) is False:
        return None
    size = keys.values.get("crop_size")
    if size is None:
        text = _text(ExactResize(default.height_px, default.width_px))
        keys.warnings.append(ConfigViolation(f"{keys.prefix}crop_size", f"Absent, taken as {text}"))
        return default
    if not isinstance(size, dict):
        number = reader.optional("crop_size", json_values.integer, 1)
        return Size(number, number)
    found = cast("dict[str, object]", size)
    height, width = _sides(ObjectReader(found, f"{keys.prefix}crop_size.", keys.violations))
    return Size(width, height)


def _sides(reader: ObjectReader) -> tuple[int, int]:
    """Height and width; stand-ins for what is refused."""
    height, width = reader.required("height", json_values.integer), reader.required("width", json_values.integer)
    return 1 if height is None else height, 1 if width is None else width


def _boolean_or_none(value: object) -> bool | None:
    return None if value is None else json_values.boolean(value)


def _text(resize: Resize) -> str:
    match resize:
        case ShortestEdgeResize(shortest_edge, _):
            return f"a shortest edge of {shortest_edge}"
        case ExactResize(height, width):
            return f"{height} x {width}"
