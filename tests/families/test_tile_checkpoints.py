"""The files of CLIP, SigLIP and InternVL: the forms of their sizes, their class defaults, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from monopath_server.faults import ConfigFault
from monopath_server.processors.checkpoint_json import parse_checkpoint_json
from monopath_server.processors.digest import config_digest
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.fixed_size.geometry import ExactResize, Resize, ShortestEdgeResize
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.types import (
    AlphaPolicy,
    OrientationPolicy,
    ResampleFilter,
    ResampleKernel,
    Size,
)
from monopath_server.reference import RELEASED_PRESETS
from tests.families.golden import CLIP, INTERN_VL, SIGLIP

CLIP_JSON: dict[str, Any] = dict(RELEASED_PRESETS["clip-vit-l-14"])
SIGLIP_JSON: dict[str, Any] = dict(RELEASED_PRESETS["siglip-so400m-14-224"])
CHAT_JSON: dict[str, Any] = dict(RELEASED_PRESETS["internvl2.5"])
NATIVE_JSON: dict[str, Any] = dict(RELEASED_PRESETS["internvl3-hf"])
INTERN_VL_CHAT = PRESETS["internvl2.5"]


def parse(document: object) -> ProcessorConfig:
    return parse_checkpoint_json(json.dumps(document)).config


def warnings(document: object) -> dict[str, str]:
    return {found.field: found.description for found in parse_checkpoint_json(json.dumps(document)).warnings}


def violations(document: object) -> dict[str, str]:
    with pytest.raises(ConfigFault) as caught:
        parse(document)
    return {found.field: found.description for found in caught.value.violations}


@pytest.mark.parametrize(
    ("changes", "resize", "crop"),
    [
        ({"size": 300, "crop_size": 280}, ShortestEdgeResize(300), Size(280, 280)),
        ({"size": {"shortest_edge": 300, "longest_edge": 400}}, ShortestEdgeResize(300, 400), Size(224, 224)),
        ({"size": {"height": 64, "width": 48}}, ExactResize(64, 48), Size(224, 224)),
        ({"size": 300, "use_square_size": True}, ExactResize(300, 300), Size(224, 224)),
        ({"crop_size": {"height": 25, "width": 24}}, ShortestEdgeResize(224), Size(24, 25)),
        ({"size": {"height": 64, "width": 48}, "do_center_crop": False}, ExactResize(64, 48), None),
        ({"size": None, "crop_size": None, "do_center_crop": None}, ShortestEdgeResize(224), Size(224, 224)),
    ],
)
def test_every_form_of_a_clip_size_is_read(changes: dict[str, Any], resize: Resize, crop: Size | None) -> None:
    assert parse(CLIP_JSON | changes) == dataclasses.replace(CLIP, resize=resize, crop_size=crop)


def test_the_old_name_of_clip_is_a_name_of_clip() -> None:
    old = {key: value for key, value in CLIP_JSON.items() if key != "image_processor_type"}
    assert parse(old | {"feature_extractor_type": "CLIPFeatureExtractor"}) == CLIP


def test_a_filter_is_a_number_of_pillows() -> None:
    assert parse(SIGLIP_JSON | {"resample": 2}) == dataclasses.replace(SIGLIP, resample_filter=ResampleFilter.BILINEAR)
    expected = "Expected 2 (bilinear) or 3 (bicubic) or null, got 1"
    assert violations(SIGLIP_JSON | {"resample": 1}) == {"resample": expected}
    assert violations(NATIVE_JSON | {"resample": 2}) == {"resample": "Expected 3 (bicubic) or null, got 2"}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"do_center_crop": False}, {"crop_size"}),
        ({"size": {"height": 224}}, {"size.width"}),
        ({"size": {"longest_edge": 224}}, {"size.height", "size.width"}),
        ({"size": "large"}, {"size"}),
        ({"size": 0}, {"size.shortest_edge"}),
        ({"size": {"shortest_edge": 300, "longest_edge": 200}}, {"size.longest_edge"}),
        ({"size": {"height": 2049, "width": 0}}, {"size.height", "size.width"}),
        ({"crop_size": {"shortest_edge": 224}}, {"crop_size.height", "crop_size.width"}),
        ({"crop_size": {"height": 0, "width": 2049}}, {"crop_size.height", "crop_size.width"}),
        ({"crop_size": [224]}, {"crop_size"}),
        ({"do_resize": False, "rescale_factor": 1, "patch_size": 0}, {"do_resize", "rescale_factor", "patch_size"}),
        ({"use_square_size": 1, "size": 224}, {"use_square_size"}),
    ],
)
def test_what_clip_cannot_mean_is_refused_by_its_key(changes: dict[str, Any], fields: set[str]) -> None:
    assert set(violations(CLIP_JSON | changes)) == fields


def test_siglip_does_not_crop_and_so_needs_both_sides() -> None:
    assert violations(SIGLIP_JSON | {"do_center_crop": True}) == {"do_center_crop": "Expected false or null, got true"}
    assert violations(SIGLIP_JSON | {"size": 224}) == {
        "crop_size": "Expected a crop, without which images would have sizes of their own, got none"
    }


def test_absent_keys_have_the_class_defaults_and_say_so() -> None:
    assert parse({"image_processor_type": "CLIPImageProcessor", "patch_size": 14}) == CLIP
    assert parse({"image_processor_type": "SiglipImageProcessor", "patch_size": 14}) == SIGLIP
    assert warnings({"image_processor_type": "CLIPImageProcessor"}) == {
        "size": "Absent, taken as a shortest edge of 224",
        "crop_size": "Absent, taken as 224 x 224",
        "image_mean": "Absent, taken as [0.48145466, 0.4578275, 0.40821073]",
        "image_std": "Absent, taken as [0.26862954, 0.26130258, 0.27577711]",
        "patch_size": "Absent, so that no token count is known",
    }
    assert warnings({"image_processor_type": "GotOcr2ImageProcessor"})["crop_to_patches"] == "Absent, taken as false"


def test_what_stands_beside_the_image_processor_counts_where_it_says_nothing_itself() -> None:
    inner = {key: value for key, value in CLIP_JSON.items() if key != "patch_size"}
    assert parse({"image_processor": inner, "patch_size": 14, "num_additional_image_tokens": 1}) == CLIP
    assert parse({"image_processor": CLIP_JSON, "patch_size": 32}) == CLIP
    native = {key: value for key, value in NATIVE_JSON.items() if key != "image_seq_length"}
    assert parse({"image_processor": native, "image_seq_length": 256}) == INTERN_VL
    assert parse({"image_processor": native}) == dataclasses.replace(INTERN_VL, tokens_per_tile=None)


def test_a_model_without_a_file_for_its_image_processor_is_known_by_its_config_json() -> None:
    whole_model = CHAT_JSON | {
        "architectures": ["InternVLChatModel"],
        "auto_map": {"AutoConfig": "configuration_internvl_chat.InternVLChatConfig"},
        "llm_config": {"hidden_size": 4096, "patch_size": 3},
        "template": "internvl2_5",
        "select_layer": -1,
    }
    assert parse(whole_model) == INTERN_VL_CHAT
    assert warnings(whole_model) == {}
    smaller = CHAT_JSON | {"force_image_size": None, "vision_config": {"image_size": 224, "patch_size": 14}}
    assert parse(smaller) == dataclasses.replace(INTERN_VL_CHAT, tile_size=224, tokens_per_tile=64)  # type: ignore[call-arg]


def test_one_tile_without_a_thumbnail_is_what_is_not_dynamic() -> None:
    still = dataclasses.replace(INTERN_VL_CHAT, max_tiles=1, has_thumbnail=False)  # type: ignore[call-arg]
    assert parse(CHAT_JSON | {"dynamic_image_size": False}) == still
    assert parse(NATIVE_JSON | {"crop_to_patches": False}) == dataclasses.replace(INTERN_VL, max_tiles=1)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"vision_config": None}, {"vision_config.patch_size"}),
        ({"vision_config": {"patch_size": 0}}, {"vision_config.patch_size"}),
        ({"force_image_size": None, "vision_config": {"patch_size": 14}}, {"vision_config.image_size"}),
        ({"dynamic_image_size": 1}, {"dynamic_image_size"}),
        ({"max_dynamic_patch": 41}, {"max_dynamic_patch"}),
        ({"min_dynamic_patch": 0}, {"min_dynamic_patch"}),
        ({"downsample_ratio": 0.001}, {"downsample_ratio"}),
        ({"pad2square": True}, {"pad2square"}),
        ({"force_image_size": 2048}, {"force_image_size"}),
    ],
)
def test_what_a_chat_model_cannot_mean_is_refused_by_its_key(changes: dict[str, Any], fields: set[str]) -> None:
    assert set(violations(CHAT_JSON | changes)) == fields


@pytest.mark.parametrize("key", ["dynamic_image_size", "max_dynamic_patch", "use_thumbnail", "downsample_ratio"])
def test_a_chat_model_needs_its_keys(key: str) -> None:
    document = {name: value for name, value in CHAT_JSON.items() if name != key}
    assert violations(document) == {key: "Expected a value, got none"}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"size": {"height": 448, "width": 336}}, {"size"}),
        ({"size": 448}, {"size"}),
        ({"min_patches": 3, "max_patches": 2}, {"max_patches"}),
        ({"crop_to_patches": "yes"}, {"crop_to_patches"}),
        ({"image_seq_length": 0}, {"image_seq_length"}),
    ],
)
def test_what_native_tiles_cannot_mean_is_refused_by_its_key(changes: dict[str, Any], fields: set[str]) -> None:
    assert set(violations(NATIVE_JSON | changes)) == fields


def test_each_field_is_part_of_the_digest() -> None:
    others: dict[ProcessorConfig, dict[str, object]] = {
        CLIP: {
            "resize": ShortestEdgeResize(225),
            "crop_size": Size(224, 225),
            "resample_filter": ResampleFilter.BILINEAR,
            "patch_size": 16,
            "class_token_count": 0,
        },
        INTERN_VL: {
            "tile_size": 449,
            "min_tiles": 2,
            "max_tiles": 13,
            "has_thumbnail": False,
            "tokens_per_tile": None,
        },
    }
    shared: dict[str, object] = {
        "image_mean": (0.25, 0.5, 0.5),
        "image_std": (0.25, 0.5, 0.5),
        "resample_kernel": ResampleKernel.PILLOW_11,
        "alpha": AlphaPolicy.WHITE,
        "orientation": OrientationPolicy.APPLY,
    }
    for config, own in others.items():
        changes = own | shared
        assert set(changes) == {field.name for field in dataclasses.fields(config)}
        digests = set()
        for name, value in changes.items():
            change: dict[str, Any] = {name: value}
            digests.add(config_digest(dataclasses.replace(config, **change)))
        assert len(digests | {config_digest(config)}) == len(changes) + 1


def test_configs_of_one_meaning_have_one_digest() -> None:
    exact = dataclasses.replace(SIGLIP, crop_size=Size(224, 224))
    assert config_digest(exact) == config_digest(SIGLIP)
    unknown = dataclasses.replace(SIGLIP, patch_size=None)
    assert config_digest(dataclasses.replace(unknown, class_token_count=1)) == config_digest(unknown)
