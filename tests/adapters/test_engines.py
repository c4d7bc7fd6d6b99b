"""The forms of sglang and vLLM: their names, and the very bytes of the reference in the family's own shape."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from monopath import ProcessorConfig, Result
from monopath.adapters._batch import feature_layout
from monopath.adapters.sglang import (
    content_digest,
    item_fields,
    item_hash,
    original_image_sizes,
    pad_value,
    processor_output,
)
from monopath.adapters.torch import normalize
from monopath.adapters.vllm import multimodal_inputs
from monopath.prompts import KIMI_K3, QWEN_VL, ImageRange
from monopath_server.reference import RELEASED_PRESETS, RawImage, reference_config, reference_features
from tests.adapters.conftest import IMAGES, Make
from tests.adapters.handmade import handmade

FAMILIES = {
    "kimi-k2.5": ("grid_thws", 3, (3, 14, 14)),
    "kimi-k3": ("grid_thws", 3, (3, 14, 14)),
    "kimi-vl-a3b": ("image_grid_hws", 2, (3, 14, 14)),
    "qwen2.5-vl": ("image_grid_thw", 3, (3 * 2 * 14 * 14,)),
    "qwen3-vl": ("image_grid_thw", 3, (3 * 2 * 16 * 16,)),
    "glm-4.1v": ("image_grid_thw", 3, (3 * 2 * 14 * 14,)),
    "glm5-next": ("image_grid_thw", 3, (3 * 2 * 14 * 14,)),
}
"""Each family's own argument for grids, numbers in a grid, and shape of a row: as Transformers' processors return them
to vllm/model_executor/models and sglang/srt/models."""
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass
class MultimodalDataItem:
    """The fields of sglang's class of this name, and what its `from_dict` does (srt/managers/schedule_batch.py)."""

    modality: str
    hash: int | None = None
    pad_value: int | None = None
    offsets: list[tuple[int, int]] | None = None
    format: str = "NORMAL"
    feature: Any = None
    precomputed_embeddings: Any = None
    model_specific_data: dict[str, Any] = field(default_factory=dict)


class MultiModalFieldConfig:
    """Splits as vLLM's class of this name does (vllm/multimodal/inputs.py)."""

    @staticmethod
    def batched(modality: str, *, keep_on_cpu: bool = False) -> Any:
        return modality, lambda tensor: list(tensor), keep_on_cpu

    @staticmethod
    def flat_from_sizes(modality: str, size_per_item: torch.Tensor, *, keep_on_cpu: bool = False) -> Any:
        return modality, lambda tensor: list(tensor.split(size_per_item.tolist())), keep_on_cpu


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def _grid(result: Result[Any], columns: int) -> list[int]:
    grid = result.plan.patch_grid
    return [grid.t, grid.h, grid.w][-columns:]


@pytest.mark.parametrize("preset", FAMILIES)
def test_sglang_gets_the_references_bytes_in_the_familys_shape(preset: str, make: Make) -> None:
    made = make(preset)
    key, columns, row = FAMILIES[preset]
    items = [MultimodalDataItem(**fields) for fields in item_fields(made.results, made.ready)]
    config = reference_config(RELEASED_PRESETS[preset], made.results[0].provenance.resample_kernel.upper())
    for item, image, result in zip(items, IMAGES, made.results, strict=True):
        height_px, width_px = image.pixels.shape[:2]
        source = RawImage(width_px, height_px, "RGB8", image.pixels.tobytes())
        assert _bytes(item.feature) == reference_features(source, config, "FLOAT32").pixel_values.tobytes()
        assert tuple(item.feature.shape[1:]) == row
        grids = dict(item.model_specific_data)
        assert set(grids) == ({"image_grid_thw", "grid_thws"} if key == "grid_thws" else {key})
        for grid in grids.values():
            assert grid.dtype == torch.int64
            assert grid.tolist() == [_grid(result, columns)]
        assert item.modality == "IMAGE"
        assert item.hash is not None
        assert 0 <= item.hash < 1 << 64
        assert item.pad_value == 1_000_000 + item.hash % (1 << 30)
        assert item.offsets is None
    assert len({item.hash for item in items}) == len(items)


def test_an_items_feature_is_no_copy(make: Make) -> None:
    made = make("qwen2.5-vl", "bfloat16")
    for fields, result in zip(item_fields(made.results, made.ready), made.results, strict=True):
        assert fields["feature"].data_ptr() == result.array.ctypes.data
        assert fields["feature"].dtype == torch.bfloat16


def test_offsets_are_where_the_expanded_prompt_has_the_images(make: Make) -> None:
    made = make("kimi-k3")
    pad_id = 9
    expanded = KIMI_K3.expand_token_ids(
        [1, pad_id, 2, pad_id, pad_id, 3],
        [result.plan for result in made.results],
        pad_id,
        encode=lambda text: [100] * len(text),
    )
    items = item_fields(made.results, made.ready, ranges=expanded.ranges, encoder_local=True)
    for fields, result in zip(items, made.results, strict=True):
        [(first, last)] = fields["offsets"]
        assert last - first + 1 == result.plan.token_count
        assert set(expanded.token_ids[first : last + 1]) == {pad_id}
        assert expanded.token_ids[first - 1] != pad_id != expanded.token_ids[last + 1]
        assert fields["model_specific_data"]["encoder_local_preprocessed"] is True
    with pytest.raises(ValueError, match="Expected 3 ranges"):
        item_fields(made.results, made.ready, ranges=expanded.ranges[:2])


def test_sizes_and_content_digests_are_in_sglangs_forms(make: Make) -> None:
    made = make("kimi-k3")
    assert original_image_sizes(made.results) == [(220, 150), (97, 41), (64, 90)]
    expected = [f"sha256:{hashlib.sha256(image.pixels.tobytes()).hexdigest()}" for image in IMAGES]
    assert [content_digest(result) for result in made.results] == expected
    with pytest.raises(ValueError, match="without"):
        content_digest(handmade(content_sha256=b""))


def test_hash_and_pad_value_are_sglangs_arithmetic() -> None:
    digest = bytes(range(1, 33))
    assert item_hash(digest) == 0x0102030405060708
    assert pad_value(item_hash(digest)) == 1_000_000 + 0x0102030405060708 % 2**30


def test_sglangs_engine_gets_all_images_in_one_processor_output(make: Make) -> None:
    made = make("qwen3-vl", "bfloat16")
    output = processor_output(made.results, made.ready)
    assert set(output) == {"format", "pixel_values", "image_grid_thw"}
    assert output["format"] == "processor_output"
    assert _bytes(output["pixel_values"]) == b"".join(result.array.tobytes() for result in made.results)
    assert output["image_grid_thw"].tolist() == [_grid(result, 3) for result in made.results]
    assert output["pixel_values"].shape == (output["image_grid_thw"].prod(-1).sum(), 3 * 2 * 16 * 16)


@pytest.mark.parametrize("preset", FAMILIES)
def test_vllms_fields_split_its_kwargs_into_the_images(preset: str, make: Make) -> None:
    made = make(preset, "bfloat16")
    key, columns, row = FAMILIES[preset]
    inputs = multimodal_inputs(made.results, made.ready)
    assert set(inputs.kwargs) == set(inputs.fields) == {"pixel_values", key}
    split = {}
    for name, one in inputs.fields.items():
        modality, cut, keep_on_cpu = one.build(MultiModalFieldConfig)
        assert modality == "image"
        assert keep_on_cpu == (name in ("grid_thws", "image_grid_thw"))
        split[name] = cut(inputs.kwargs[name])
    for rows, grid, result in zip(split["pixel_values"], split[key], made.results, strict=True):
        assert _bytes(rows) == result.array.tobytes()
        assert tuple(rows.shape[1:]) == row
        assert grid.tolist() == _grid(result, columns)
    assert [len(one) for one in inputs.mm_hashes["image"]] == [64] * 3
    assert inputs.mm_placeholders == {}
    assert inputs.normalize_table is None


def test_vllms_placeholders_and_modality_are_the_callers(make: Make) -> None:
    made = make("kimi-k2.5")
    ranges = [ImageRange(3 * place, 2) for place in range(3)]
    inputs = multimodal_inputs(made.results, made.ready, ranges=ranges, modality="vision_chunk")
    assert inputs.mm_placeholders == {"vision_chunk": tuple(ranges)}
    assert set(inputs.mm_hashes) == {"vision_chunk"}
    assert {one.modality for one in inputs.fields.values()} == {"vision_chunk"}
    with pytest.raises(ValueError, match="Expected 3 ranges"):
        multimodal_inputs(made.results, made.ready, ranges=ranges[:1])


@pytest.mark.parametrize("preset", ["kimi-k3", "qwen2.5-vl", "qwen3-vl"])
@pytest.mark.parametrize("data_type", TYPES)
def test_uint8_rows_and_the_table_give_the_bytes_of_every_other_type(preset: str, data_type: str, make: Make) -> None:
    raw, finished = make(preset, "uint8"), make(preset, data_type)
    inputs = multimodal_inputs(raw.results, raw.ready)
    assert inputs.kwargs["pixel_values"].dtype == torch.uint8
    assert inputs.normalize_table is not None
    rows = torch.cat([result.torch() for result in raw.results])
    assert _bytes(rows) == _bytes(inputs.kwargs["pixel_values"])
    normalized = normalize(rows, inputs.normalize_table, TYPES[data_type])
    assert _bytes(normalized) == b"".join(result.array.tobytes() for result in finished.results)


def test_only_uint8_features_are_finished() -> None:
    table = np.zeros((3, 256), np.float32)
    for tensor in (torch.zeros(2, 3, 2, 2), torch.zeros(2, 4, 2, dtype=torch.uint8), torch.zeros(3, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="Expected uint8 features"):
            normalize(tensor, table)
    with pytest.raises(ValueError, match="Expected a table"):
        normalize(torch.zeros(2, 3, dtype=torch.uint8), table[:2])


def test_a_family_that_is_not_known_is_told() -> None:
    with pytest.raises(ValueError, match="Expected a processor of kimi, kimi_vl, qwen_vl, glm_vl, glm_next, got none"):
        feature_layout(ProcessorConfig())


def test_qwens_prompt_goes_with_its_items(make: Make) -> None:
    made = make("qwen2.5-vl")
    text = QWEN_VL.expand_text(QWEN_VL.unexpanded * 3, [result.plan for result in made.results])
    assert text.count("<|image_pad|>") == sum(
        len(fields["feature"]) // 4 for fields in item_fields(made.results, made.ready)
    )
