"""The `preprocessor_config.json` of a checkpoint: its forms, its mistakes, its digest."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from monopath_server.faults import ConfigFault
from monopath_server.processors.checkpoint_json import parse_checkpoint_json
from monopath_server.processors.digest import config_digest
from monopath_server.processors.family import Overrides
from monopath_server.processors.kimi.config import KimiConfig, validate
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import (
    Background,
    BackgroundPattern,
    FillStage,
    OrientationPolicy,
    ResampleKernel,
)

REQUIRED = (
    "patch_size",
    "merge_kernel_size",
    "in_patch_limit",
    "patch_limit_on_one_side",
    "image_mean",
    "image_std",
)
WRONG_VALUES = (
    '"14"',
    "null",
    "NaN",
    "-1",
    "0",
    "1e400",
    "true",
    "{}",
    "[]",
    '["a"]',
    "1" + "0" * 400,
    "[true]",
    "[1, 2]",
)
K25: dict[str, Any] = {
    "patch_size": 14,
    "merge_kernel_size": 2,
    "in_patch_limit": 16384,
    "patch_limit_on_one_side": 512,
    "fixed_output_tokens": None,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
K3 = K25 | {
    "in_patch_limit": 65536,
    "transparent_bg_config": {
        "pattern": "chessboard",
        "chessboard_square_size": 8,
        "chessboard_square_on_top_left": True,
        "chessboard_white_value": 255,
        "chessboard_gray_value": 180,
    },
    "transparent_bg_fill_stage": "after_resize",
}
OTHER_KEYS = {
    "in_patch_limit_each_frame": 4096,
    "in_patch_limit_video": None,
    "sample_fps": 2.0,
    "max_num_frames_each_video": None,
    "temporal_merge_kernel_size": 4,
    "timestamp_mode": "hh:mm:ss.fff",
    "config_type": "media_proc.processors.moonvit.MoonViTMediaProcessorConfig",
}
LOADER_KEYS = {
    "auto_map": {"AutoProcessor": "kimi_processor.KimiProcessor"},
    "processor_class": "KimiProcessor",
    "image_processor_type": "KimiVisionProcessor",
}


def nested(config: dict[str, Any]) -> str:
    return json.dumps({**LOADER_KEYS, "media_proc_cfg": config | OTHER_KEYS})


def flat(config: dict[str, Any]) -> str:
    return json.dumps({**LOADER_KEYS, **config, **OTHER_KEYS})


def violations_of(text: str) -> dict[str, str]:
    with pytest.raises(ConfigFault) as caught:
        parse_checkpoint_json(text)
    fields = [violation.field for violation in caught.value.violations]
    assert len(fields) == len(set(fields)), "a key was named twice"
    return {violation.field: violation.description for violation in caught.value.violations}


@pytest.mark.parametrize("write", [nested, flat])
@pytest.mark.parametrize(("name", "config"), [("kimi-k2.5", K25), ("kimi-k3", K3)])
def test_nested_and_flat_text_give_the_preset_without_a_warning(write: Any, name: str, config: dict[str, Any]) -> None:
    parsed = parse_checkpoint_json(write(config))

    assert parsed.config == PRESETS[name]
    assert config_digest(parsed.config) == config_digest(PRESETS[name])
    assert parsed.warnings == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"image_mean": 0.5},
        {"image_std": 0.5},
        {"image_mean": [0.5], "image_std": [0.5]},
        {"merge_kernel_size": [2, 2]},
    ],
)
def test_other_spellings_of_one_meaning_have_one_digest(changes: dict[str, Any]) -> None:
    parsed = parse_checkpoint_json(flat(K25 | changes))

    assert config_digest(parsed.config) == config_digest(PRESETS["kimi-k2.5"])


def test_an_absent_fixed_output_tokens_is_null() -> None:
    without = {key: value for key, value in K25.items() if key != "fixed_output_tokens"}

    assert parse_checkpoint_json(flat(without)).config == parse_checkpoint_json(flat(K25)).config


def test_what_the_text_does_not_say_is_taken_from_the_caller() -> None:
    parsed = parse_checkpoint_json(
        flat(K25), Overrides(resample_kernel=ResampleKernel.PILLOW_11, orientation=OrientationPolicy.APPLY)
    )

    assert isinstance(parsed.config, KimiConfig)
    assert parsed.config.resample_kernel is ResampleKernel.PILLOW_11
    assert parsed.config.orientation is OrientationPolicy.APPLY


def test_an_empty_background_has_the_defaults_of_the_checkpoint() -> None:
    parsed = parse_checkpoint_json(flat(K25 | {"transparent_bg_config": {}}))

    assert isinstance(parsed.config, KimiConfig)
    assert parsed.config.transparent_background == Background(BackgroundPattern.BLACK, 16, True, 255, 200)
    assert parsed.config.transparent_fill_stage is FillStage.BEFORE_RESIZE


@pytest.mark.parametrize("key", REQUIRED)
def test_each_required_key_is_missed_by_its_path(key: str) -> None:
    config = {name: value for name, value in K25.items() if name != key}

    assert violations_of(flat(config)) == {key: "Expected a value, got none"}
    assert violations_of(nested(config)) == {f"media_proc_cfg.{key}": "Expected a value, got none"}


@pytest.mark.parametrize(
    ("text", "prefix"), [('{"in_patch_limit_each_frame": 1}', ""), ('{"media_proc_cfg": {}}', "media_proc_cfg.")]
)
def test_all_missing_keys_are_named_at_once(text: str, prefix: str) -> None:
    assert set(violations_of(text)) == {prefix + key for key in REQUIRED}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key in REQUIRED
        for value in WRONG_VALUES
        # A mean may be any finite number.
        if key != "image_mean" or value not in ("-1", "0")
    ],
)
def test_a_wrong_value_is_refused_by_its_path(key: str, value: str) -> None:
    text = json.dumps(K25 | {key: "HERE"}).replace('"HERE"', value)

    violations = violations_of(text)

    assert set(violations) == {key}
    assert violations[key].startswith("Expected ")
    assert len(violations[key]) < 200


@pytest.mark.parametrize("value", [[2, 3], [2], [2, 2, 2], [2, "2"], 17, 2.0])
def test_a_merge_window_that_is_no_square_is_refused(value: Any) -> None:
    assert set(violations_of(flat(K25 | {"merge_kernel_size": value}))) == {"merge_kernel_size"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("patch_size", 65),
        ("in_patch_limit", 1_048_577),
        ("patch_limit_on_one_side", 4_097),
        ("fixed_output_tokens", 0),
        ("fixed_output_tokens", "64"),
        ("image_std", [0.5, 0.5, 1e-300]),
        ("image_mean", [0.5, 0.5]),
        ("transparent_bg_config", "white"),
        ("transparent_bg_fill_stage", "during_resize"),
        ("transparent_bg_fill_stage", None),
    ],
)
def test_a_value_out_of_range_is_refused(key: str, value: Any) -> None:
    assert set(violations_of(flat(K25 | {key: value}))) == {key}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pattern", "checkers"),
        ("pattern", 3),
        ("chessboard_square_size", 0),
        ("chessboard_square_on_top_left", 1),
        ("chessboard_white_value", 256),
        ("chessboard_gray_value", -1),
    ],
)
def test_a_wrong_background_is_refused_by_its_path(key: str, value: Any) -> None:
    config = K25 | {"transparent_bg_config": {"pattern": "chessboard", key: value}}

    assert set(violations_of(nested(config))) == {f"media_proc_cfg.transparent_bg_config.{key}"}


def test_wrong_and_missing_keys_are_named_together() -> None:
    config = {
        "patch_size": "14",
        "in_patch_limit": -5,
        "image_mean": [0.5] * 3,
        "image_std": 0,
        "merge_kernel_size": 2,
        "transparent_bg_config": {"pattern": "x"},
    }

    assert set(violations_of(nested(config))) == {
        "media_proc_cfg.patch_size",
        "media_proc_cfg.in_patch_limit",
        "media_proc_cfg.image_std",
        "media_proc_cfg.patch_limit_on_one_side",
        "media_proc_cfg.transparent_bg_config.pattern",
    }


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("not JSON", ""),
        ("", ""),
        ("[]", ""),
        ("null", ""),
        ("[" * 100_000, ""),
        ('{"patch_size": 14, "patch_size": 14}', ""),
        ('{"media_proc_cfg": [1]}', "media_proc_cfg"),
        ('{"media_proc_cfg": null}', "media_proc_cfg"),
    ],
    ids=["words", "empty", "list", "null", "deep", "duplicate key", "nested list", "nested null"],
)
def test_text_that_is_no_config_is_refused(text: str, field: str) -> None:
    assert set(violations_of(text)) == {field}


def test_an_unknown_key_warns_and_changes_nothing() -> None:
    config = K3 | {"new_key": 1, "transparent_bg_config": K3["transparent_bg_config"] | {"colour": "red"}}
    text = json.dumps({"media_proc_cfg": config, "other_key": 2})

    parsed = parse_checkpoint_json(text)

    assert parsed.config == PRESETS["kimi-k3"]
    assert {warning.field for warning in parsed.warnings} == {
        "other_key",
        "media_proc_cfg.new_key",
        "media_proc_cfg.transparent_bg_config.colour",
    }


def test_a_key_beside_the_nested_config_is_not_taken_from_there() -> None:
    config = {name: value for name, value in K25.items() if name != "patch_size"}

    text = json.dumps({"patch_size": 14, "media_proc_cfg": config})

    assert set(violations_of(text)) == {"media_proc_cfg.patch_size"}


def test_a_text_of_half_surrogates_can_travel() -> None:
    violations = violations_of(flat(K25 | {"patch_size": "\ud800"}))

    assert violations["patch_size"].encode("utf-8")


@pytest.mark.parametrize("name", PRESETS)
def test_the_presets_are_in_range(name: str) -> None:
    assert validate(PRESETS[name]) == ()


def test_every_field_that_matters_changes_the_digest() -> None:
    base = PRESETS["kimi-k3"]
    board = base.transparent_background
    assert board is not None
    changes: list[dict[str, Any]] = [
        {"patch_size": 16},
        {"merge_kernel_size": 1},
        {"in_patch_limit": 65535},
        {"patch_limit_on_one_side": 510},
        {"fixed_output_tokens": 64},
        {"image_mean": (0.5, 0.5, 0.5000000000000001)},
        {"image_std": (0.5, 0.25, 0.5)},
        {"transparent_background": None},
        {"transparent_background": Background(BackgroundPattern.WHITE)},
        {"transparent_background": Background(BackgroundPattern.BLACK)},
        {"transparent_background": Background(BackgroundPattern.GRAY)},
        {"transparent_background": dataclasses.replace(board, chessboard_square_size=9)},
        {"transparent_background": dataclasses.replace(board, chessboard_square_on_top_left=False)},
        {"transparent_background": dataclasses.replace(board, chessboard_white_value=254)},
        {"transparent_background": dataclasses.replace(board, chessboard_gray_value=181)},
        {"transparent_fill_stage": FillStage.BEFORE_RESIZE},
        {"resample_kernel": ResampleKernel.PILLOW_11},
        {"resample_kernel": ResampleKernel.PILLOW_12_2},
        {"orientation": OrientationPolicy.APPLY},
    ]
    assert {name for change in changes for name in change} == {field.name for field in dataclasses.fields(KimiConfig)}

    digests = [config_digest(dataclasses.replace(base, **change)) for change in changes]

    assert all(len(digest) == 32 for digest in digests)
    assert len({config_digest(base), *digests}) == len(changes) + 1


def test_what_cannot_change_a_pixel_does_not_change_the_digest() -> None:
    base = PRESETS["kimi-k3"]
    plain = dataclasses.replace(base, transparent_background=Background(BackgroundPattern.WHITE))
    same = dataclasses.replace(
        base, transparent_background=Background(BackgroundPattern.WHITE, chessboard_square_size=3)
    )
    zero = dataclasses.replace(base, image_mean=(0.0, 0.5, 0.5))
    negative_zero = dataclasses.replace(base, image_mean=(-0.0, 0.5, 0.5))

    assert config_digest(plain) == config_digest(same)
    assert config_digest(zero) == config_digest(negative_zero)
