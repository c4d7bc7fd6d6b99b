"""Reads the keys of a Kimi checkpoint, and refuses them with every bad one named at once."""

from __future__ import annotations

from typing import Final, cast

from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors import json_values
from monopath_server.processors.family import ParsedConfig
from monopath_server.processors.json_reader import IGNORED_KEYS, ObjectReader, refuse
from monopath_server.processors.kimi.config import KimiConfig, validate
from monopath_server.processors.types import Background, BackgroundPattern, FillStage

__all__ = ["OWN_KEYS", "parse_keys"]

_NESTED_KEY: Final = "media_proc_cfg"
_BACKGROUND_KEY: Final = "transparent_bg_config"

OWN_KEYS: Final = frozenset(
    {_NESTED_KEY, "in_patch_limit", "patch_limit_on_one_side", "in_patch_limit_each_frame", "transparent_bg_config"}
)

# Keys of the checkpoint that a still image does not depend on.
_IGNORED_KEYS: Final = IGNORED_KEYS | {
    "config_type",
    "in_patch_limit_each_frame",
    "in_patch_limit_video",
    "max_num_frames_each_video",
    "sample_fps",
    "temporal_merge_kernel_size",
    "timestamp_mode",
}
_CONFIG_KEYS: Final = frozenset(
    {
        "patch_size",
        "merge_kernel_size",
        "in_patch_limit",
        "patch_limit_on_one_side",
        "fixed_output_tokens",
        "image_mean",
        "image_std",
        _BACKGROUND_KEY,
        "transparent_bg_fill_stage",
    }
)
_BACKGROUND_KEYS: Final = frozenset(
    {
        "pattern",
        "chessboard_square_size",
        "chessboard_square_on_top_left",
        "chessboard_white_value",
        "chessboard_gray_value",
    }
)


def parse_keys(root: dict[str, object], prefix: str = "") -> ParsedConfig[KimiConfig]:
    """Parse the keys as they ship with a checkpoint: flat, or nested under `media_proc_cfg`.

    Raises:
        ConfigFault: keys are missing or wrong; one violation for each of them, named by the key's path in the text.
    """
    violations: list[ConfigViolation] = []
    warnings = [
        ConfigViolation(prefix + key, "Unknown key, ignored")
        for key in root
        if _NESTED_KEY in root and key not in _IGNORED_KEYS | {_NESTED_KEY}
    ]
    values = root
    if _NESTED_KEY in root:
        nested = root[_NESTED_KEY]
        if not isinstance(nested, dict):
            refuse(prefix + _NESTED_KEY, f"Expected an object, got {json_values.show(nested)}")
        prefix, values = f"{prefix}{_NESTED_KEY}.", cast("dict[str, object]", nested)
    reader = ObjectReader(values, prefix, violations)
    warnings += reader.unknown_keys(_CONFIG_KEYS | _IGNORED_KEYS)

    patch_size = reader.required("patch_size", json_values.integer)
    merge_kernel_size = reader.required("merge_kernel_size", json_values.merge_kernel_size)
    in_patch_limit = reader.required("in_patch_limit", json_values.integer)
    patch_limit_on_one_side = reader.required("patch_limit_on_one_side", json_values.integer)
    image_mean = reader.required("image_mean", json_values.channel_values)
    image_std = reader.required("image_std", json_values.channel_values)
    fixed_output_tokens = reader.optional("fixed_output_tokens", json_values.integer_or_none, None)
    fill_stage = reader.optional("transparent_bg_fill_stage", json_values.fill_stage, FillStage.BEFORE_RESIZE)
    background = _read_background(reader, warnings)

    # Stand-ins for what was refused above let the range checks see every other value too.
    config = KimiConfig(
        patch_size=1 if patch_size is None else patch_size,
        merge_kernel_size=1 if merge_kernel_size is None else merge_kernel_size,
        in_patch_limit=1 if in_patch_limit is None else in_patch_limit,
        patch_limit_on_one_side=1 if patch_limit_on_one_side is None else patch_limit_on_one_side,
        image_mean=(0.0, 0.0, 0.0) if image_mean is None else image_mean,
        image_std=(1.0, 1.0, 1.0) if image_std is None else image_std,
        fixed_output_tokens=fixed_output_tokens,
        transparent_background=background,
        transparent_fill_stage=fill_stage,
    )
    violations += [ConfigViolation(prefix + violation.field, violation.description) for violation in validate(config)]
    if violations:
        raise ConfigFault(tuple(violations))
    return ParsedConfig(config, tuple(warnings))


def _read_background(reader: ObjectReader, warnings: list[ConfigViolation]) -> Background | None:
    nested = reader.nested(_BACKGROUND_KEY)
    if nested is None:
        return None
    warnings += nested.unknown_keys(_BACKGROUND_KEYS)
    # The defaults are those of the checkpoint's own dataclass.
    return Background(
        pattern=nested.optional("pattern", json_values.pattern, BackgroundPattern.BLACK),
        chessboard_square_size=nested.optional("chessboard_square_size", json_values.integer, 16),
        chessboard_square_on_top_left=nested.optional("chessboard_square_on_top_left", json_values.boolean, True),
        chessboard_white_value=nested.optional("chessboard_white_value", json_values.integer, 255),
        chessboard_gray_value=nested.optional("chessboard_gray_value", json_values.integer, 200),
    )
