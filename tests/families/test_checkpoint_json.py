"""How a checkpoint's family is found in its JSON, and how the keys of each are read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from monopath_server.faults import ConfigFault
from monopath_server.processors.checkpoint_json import parse_checkpoint_json
from monopath_server.processors.digest import config_digest
from monopath_server.processors.family import Overrides, ParsedConfig, ProcessorConfig, overridden
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.qwen_vl.config import QwenVlConfig
from monopath_server.processors.types import AlphaPolicy, OrientationPolicy, ResampleKernel
from monopath_server.reference import RELEASED_PRESETS
from tests.families.golden import GLM5, KIMI_VL, QWEN2, QWEN3

QWEN2_JSON: dict[str, Any] = dict(RELEASED_PRESETS["qwen2.5-vl"])
QWEN3_JSON: dict[str, Any] = dict(RELEASED_PRESETS["qwen3-vl"])
GLM_JSON: dict[str, Any] = dict(RELEASED_PRESETS["glm-4.1v"])
KIMI_VL_JSON: dict[str, Any] = dict(RELEASED_PRESETS["kimi-vl-a3b"])
TYPES = (
    "CLIPFeatureExtractor, CLIPImageProcessor, Glm46VImageProcessor, Glm4vImageProcessor, Glm5NextImageProcessor, "
    "GotOcr2ImageProcessor, KimiK25VisionProcessor, KimiK3VisionProcessor, KimiVLImageProcessor, "
    "Qwen2VLImageProcessor, SiglipImageProcessor"
)


def parse(document: object, overrides: Overrides | None = None) -> ParsedConfig[ProcessorConfig]:
    return parse_checkpoint_json(json.dumps(document), overrides)


def violations(document: object, overrides: Overrides | None = None) -> dict[str, str]:
    with pytest.raises(ConfigFault) as caught:
        parse(document, overrides)
    return {found.field: found.description for found in caught.value.violations}


def without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


@pytest.mark.parametrize("name", sorted(RELEASED_PRESETS))
def test_a_released_file_is_its_preset(name: str) -> None:
    parsed = parse(RELEASED_PRESETS[name])
    assert parsed.config == PRESETS[name]
    assert parsed.warnings == ()
    assert PRESETS[name].violations() == ()


def test_every_preset_is_a_released_one() -> None:
    assert set(PRESETS) == set(RELEASED_PRESETS)


@pytest.mark.parametrize("suffix", ["", "Fast", "Pil"])
def test_the_backend_in_a_class_name_says_nothing_of_the_family(suffix: str) -> None:
    assert parse(QWEN2_JSON | {"image_processor_type": f"Qwen2VLImageProcessor{suffix}"}).config == QWEN2


def test_a_processor_config_json_counts_by_its_image_processor() -> None:
    nested = {"processor_class": "Qwen3VLProcessor", "image_processor": QWEN3_JSON, "min_pixels": 1}
    assert parse(nested).config == QWEN3
    assert set(violations({"image_processor": QWEN3_JSON | {"patch_size": 65}})) == {"image_processor.patch_size"}
    assert violations({"image_processor": 3}) == {"image_processor": "Expected an object, got 3"}


@pytest.mark.parametrize(
    "document",
    [
        without(KIMI_VL_JSON),
        KIMI_VL_JSON | {"auto_map": {"AutoImageProcessor": "image_processing_kimi_vl.KimiVLImageProcessor"}},
        KIMI_VL_JSON | {"image_processor_type": "KimiVLImageProcessor"},
    ],
)
def test_kimi_vl_is_known_by_its_class_or_by_its_own_key(document: dict[str, Any]) -> None:
    assert parse(document).config == KIMI_VL


def test_a_class_of_the_checkpoints_own_is_known_by_the_keys_of_its_family() -> None:
    document = {"image_processor_type": "SomethingNew", "media_proc_cfg": RELEASED_PRESETS["kimi-k3"]}
    assert parse(document).config == PRESETS["kimi-k3"]


@pytest.mark.parametrize(
    ("document", "field", "found"),
    [
        ({"image_processor_type": "ViTImageProcessor", "size": 224}, "image_processor_type", '"ViTImageProcessor"'),
        ({"feature_extractor_type": "Qwen9"}, "feature_extractor_type", '"Qwen9"'),
        ({"auto_map": {"AutoImageProcessor": "code--module.Qwen9"}}, "auto_map.AutoImageProcessor", '"Qwen9"'),
        ({"_name_or_path": "Qwen/Qwen2.5-VL-7B-Instruct", "patch_size": 14}, "image_processor_type", "none"),
        ({"image_processor": {"size": 1}}, "image_processor.image_processor_type", "none"),
        ({}, "image_processor_type", "none"),
    ],
)
def test_an_unknown_family_is_refused_with_the_known_ones(document: dict[str, Any], field: str, found: str) -> None:
    assert violations(document) == {field: f"Expected one of {TYPES}, got {found}"}


@pytest.mark.parametrize(
    ("changes", "bounds"),
    [
        ({"size": {"shortest_edge": 4096, "longest_edge": 16384}}, (3136, 12845056)),
        ({"size": {"shortest_edge": 4096, "longest_edge": 16384}, "min_pixels": None}, (4096, 12845056)),
        ({"size": {"shortest_edge": 4096, "longest_edge": 16384}, "max_pixels": None}, (3136, 16384)),
        (
            {"size": {"shortest_edge": 4096, "longest_edge": 16384}, "min_pixels": None, "max_pixels": None},
            (4096, 16384),
        ),
        ({"min_pixels": None, "max_pixels": None}, (3136, 1003520)),
        ({"max_pixels": None}, (3136, 1003520)),
        ({"size": {"min_pixels": 3136, "max_pixels": 12845056}}, (3136, 12845056)),
    ],
)
def test_min_and_max_pixels_replace_the_edges_one_by_one(changes: dict[str, Any], bounds: tuple[int, int]) -> None:
    config = parse(QWEN2_JSON | changes).config
    assert isinstance(config, QwenVlConfig)
    assert (config.min_pixels, config.max_pixels) == bounds


@pytest.mark.parametrize(
    ("size", "field"),
    [
        ({"shortest_edge": 4096}, "size.longest_edge"),
        ({"longest_edge": 4096}, "size.shortest_edge"),
        ({"height": 224, "width": 224}, "size.shortest_edge"),
        (224, "size"),
        ({"shortest_edge": 0, "longest_edge": 16384}, "size.shortest_edge"),
    ],
)
@pytest.mark.parametrize("document", [without(QWEN2_JSON, "min_pixels", "max_pixels"), GLM_JSON])
def test_a_size_without_two_areas_is_refused(document: dict[str, Any], size: object, field: str) -> None:
    assert field in violations(document | {"size": size})


def test_glm_ignores_the_bounds_of_the_other_form() -> None:
    assert parse(GLM_JSON | {"min_pixels": 1, "max_pixels": 2}).config == PRESETS["glm-4.1v"]


def test_glm5_next_ignores_a_size() -> None:
    document = dict(RELEASED_PRESETS["glm5-next"]) | {"size": {"shortest_edge": 1, "longest_edge": 2}}
    assert parse(document).config == GLM5


def test_absent_and_null_keys_have_the_class_defaults_and_say_so() -> None:
    parsed = parse({"image_processor_type": "Qwen2VLImageProcessor", "image_mean": None, "do_resize": None})
    assert parsed.config == dataclasses.replace(QWEN2, max_pixels=1_003_520)
    assert {found.field: found.description for found in parsed.warnings} == {
        "patch_size": "Absent, taken as 14",
        "temporal_patch_size": "Absent, taken as 2",
        "merge_size": "Absent, taken as 2",
        "image_mean": "Absent, taken as [0.48145466, 0.4578275, 0.40821073]",
        "image_std": "Absent, taken as [0.26862954, 0.26130258, 0.27577711]",
        "min_pixels": "Absent, taken as 3136",
        "max_pixels": "Absent, taken as 1003520",
    }


def test_inert_keys_are_silent_and_unknown_ones_are_warnings() -> None:
    inert = {"crop_size": None, "device": None, "do_center_crop": None, "return_tensors": None, "processor_class": "Q"}
    parsed = parse(QWEN2_JSON | inert | {"sharpen": True})
    assert [(found.field, found.description) for found in parsed.warnings] == [("sharpen", "Unknown key, ignored")]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, False) for key in ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb")),
        ("resample", 2),
        ("rescale_factor", 0.5),
        ("patch_size", 0),
        ("patch_size", 14.0),
        ("merge_size", 17),
        ("temporal_patch_size", 9),
        ("image_mean", [0.5, 0.5]),
        ("image_std", 0),
        ("min_pixels", "3136"),
        ("max_pixels", 2**31),
    ],
)
def test_what_would_make_other_features_is_refused_by_its_key(key: str, value: object) -> None:
    assert set(violations(QWEN2_JSON | {key: value})) == {key}


def test_what_the_file_may_say_of_the_steps_is_accepted() -> None:
    said = {"do_resize": True, "do_convert_rgb": True, "resample": 3, "rescale_factor": 0.00392156862745098}
    assert parse(QWEN2_JSON | said).config == QWEN2


def test_all_that_is_wrong_is_named_at_once() -> None:
    wrong = QWEN2_JSON | {"patch_size": 0, "do_resize": False, "size": 3, "max_pixels": None}
    assert set(violations(wrong)) == {"patch_size", "do_resize", "size"}


@pytest.mark.parametrize("key", ["patch_size", "in_token_limit", "image_mean", "pad_input"])
def test_kimi_vl_needs_its_keys(key: str) -> None:
    document = without(KIMI_VL_JSON, key) | {"image_processor_type": "KimiVLImageProcessor"}
    assert violations(document) == {key: "Expected a value, got none"}


def test_kimi_vl_pads_or_crops() -> None:
    assert parse(KIMI_VL_JSON | {"pad_input": False}).config == dataclasses.replace(KIMI_VL, pad_input=False)
    assert violations(KIMI_VL_JSON | {"pad_input": 1}) == {"pad_input": "Expected true or false, got 1"}


def test_what_the_file_does_not_say_is_taken_from_the_caller() -> None:
    wanted = Overrides(ResampleKernel.PILLOW_12_2, OrientationPolicy.APPLY, AlphaPolicy.WHITE)
    assert parse(QWEN2_JSON, wanted).config == dataclasses.replace(
        QWEN2,
        resample_kernel=ResampleKernel.PILLOW_12_2,
        orientation=OrientationPolicy.APPLY,
        alpha=AlphaPolicy.WHITE,
    )


@pytest.mark.parametrize("name", ["kimi-k2.5", "kimi-k3", "kimi-vl-a3b"])
def test_families_refuse_what_they_have_no_reference_for(name: str) -> None:
    wanted = Overrides(resample_kernel=ResampleKernel.ATEN_U8, alpha=AlphaPolicy.WHITE)
    assert violations(RELEASED_PRESETS[name], wanted) == {
        "alpha_policy": f"Expected none for the family {PRESETS[name].family}, got WHITE",
        "resample_kernel": "Expected one of pillow_11, pillow_12_2, pillow_13, got aten_u8",
    }


def test_each_field_is_part_of_the_digest() -> None:
    for config in (QWEN2, GLM5, KIMI_VL, PRESETS["glm-4.1v"]):
        digests = {config_digest(config)}
        fields = dataclasses.fields(config)
        for field in fields:
            value = getattr(config, field.name)
            match value:
                case bool():
                    other: Any = not value
                case int():
                    other = value + 1
                case tuple():
                    other = (0.25, *value[1:])
                case ResampleKernel():
                    other = ResampleKernel.PILLOW_11
                case OrientationPolicy():
                    other = OrientationPolicy.APPLY
                case _:
                    other = AlphaPolicy.WHITE
            digests.add(config_digest(dataclasses.replace(config, **{field.name: other})))
        assert len(digests) == len(fields) + 1


def test_equal_fields_of_two_families_are_two_digests() -> None:
    assert len({config_digest(config) for config in PRESETS.values()}) == len(set(PRESETS.values()))


def test_the_digests_of_kimi_are_those_of_the_first_release() -> None:
    kimi = {name: config for name, config in PRESETS.items() if isinstance(config, KimiConfig)}
    assert {name: config_digest(config).hex() for name, config in kimi.items()} == {
        "kimi-k2.5": "12f37b37c075c8c318bceaca0498ef8211fb8422ceaef2f69531aa8a45b9fe1e",
        "kimi-k3": "b6006b82bd3507d218623d071c28d8e8178c6efcc12220db810c71c43810f82c",
    }


def test_the_digest_of_kimi_vl_is_older_than_its_crop() -> None:
    digest = "9d8fd6e279ca033b513be167ea3c9f46656e89be09b1f1130b50eb30cc337d88"
    assert config_digest(KIMI_VL).hex() == digest


def test_an_override_of_nothing_changes_nothing() -> None:
    for config in PRESETS.values():
        assert overridden(config, Overrides()) == config
