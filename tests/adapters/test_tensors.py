"""torch, DLPack and safetensors: the results' bytes in every element type, and their memory where it is shared."""

from __future__ import annotations

import gc
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from torch.utils.dlpack import from_dlpack

from monopath import RawImage, concatenate
from monopath.adapters.dlpack import DlpackFeatures
from monopath.adapters.safetensors import dumps, save
from monopath.adapters.torch import batch
from tests.adapters.conftest import PIXELS, Make
from tests.adapters.handmade import failed, handmade

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "uint8": torch.uint8}
SAFETENSORS_TYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "uint8": "U8"}


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("data_type", TYPES)
def test_a_batch_of_tensors_is_a_batch_of_arrays(data_type: str, make: Make) -> None:
    made = make("kimi-k3", data_type)
    tensors, arrays = batch(made.results), concatenate(made.results)
    assert tensors.pixel_values.dtype == TYPES[data_type]
    assert tensors.pixel_values.shape == arrays.pixel_values.shape
    assert _bytes(tensors.pixel_values) == arrays.pixel_values.tobytes()
    assert tensors.grid_thws.dtype == torch.int64
    assert tensors.grid_thws.tolist() == arrays.grid_thws.tolist()
    for name in ("path", "token_counts", "ids", "config_sha256"):
        assert getattr(tensors, name) == getattr(arrays, name)


@pytest.mark.parametrize("data_type", TYPES)
def test_dlpack_shares_the_memory_in_every_type(data_type: str, make: Make) -> None:
    [result] = make("kimi-k3", data_type, [RawImage(PIXELS, "RGB8")]).results
    tensor = from_dlpack(DlpackFeatures(result))
    assert tensor.dtype == TYPES[data_type]
    assert tuple(tensor.shape) == result.array.shape
    assert tensor.data_ptr() == result.array.ctypes.data
    assert _bytes(tensor) == result.array.tobytes()


@pytest.mark.parametrize("data_type", ["float32", "bfloat16"])
def test_dlpack_keeps_the_memory_as_long_as_it_is_used(data_type: str, make: Make) -> None:
    made = make("kimi-k3", data_type, [RawImage(PIXELS, "RGB8")])
    digest = made.results[0].sha256()
    tensor = from_dlpack(DlpackFeatures(made.results.pop()))
    gc.collect()
    assert make("kimi-k3", data_type, [RawImage(PIXELS, "RGB8")]).results[0].sha256() == digest
    [again] = make("kimi-k3", data_type, [RawImage(PIXELS, "RGB8")]).results
    assert _bytes(tensor) == again.array.tobytes()


def test_dlpack_says_where_the_features_are() -> None:
    cpu = (1, 0)
    assert DlpackFeatures(handmade()).__dlpack_device__() == cpu
    np.testing.assert_array_equal(np.from_dlpack(DlpackFeatures(handmade())), handmade().array)


def test_dlpack_of_no_features_is_refused() -> None:
    with pytest.raises(Exception, match="no image"):
        DlpackFeatures(failed())
    released = handmade()
    released.release()
    with pytest.raises(RuntimeError, match="Expected held features"):
        DlpackFeatures(released)


def _metadata(data: bytes) -> dict[str, str]:
    [length] = struct.unpack("<Q", data[:8])
    found: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return found


@pytest.mark.parametrize("data_type", TYPES)
def test_a_file_holds_the_features_and_where_they_come_from(data_type: str, make: Make, tmp_path: Path) -> None:
    made = make("kimi-k3", data_type)
    save(made.results, tmp_path / "features.safetensors")
    data = (tmp_path / "features.safetensors").read_bytes()
    assert len(data) == len(dumps(made.results))
    assert [file.name for file in tmp_path.iterdir()] == ["features.safetensors"]
    tensors: dict[str, Any] = dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]
    for result in made.results:
        rows, grid = tensors.pop(f"{result.id}.pixel_values"), tensors.pop(f"{result.id}.grid_thw")
        assert (rows["dtype"], tuple(rows["shape"])) == (SAFETENSORS_TYPES[data_type], result.array.shape)
        assert bytes(rows["data"]) == result.array.tobytes()
        plan = result.plan.patch_grid
        assert np.frombuffer(grid["data"], np.int64).tolist() == [plan.t, plan.h, plan.w]
    assert not tensors
    metadata = _metadata(data)
    assert metadata["path"] == "DEFERRED_CPU"
    assert metadata["config_sha256"] == made.ready.config_sha256.hex()
    assert metadata["data_type"] == data_type
    assert json.loads(metadata["items"]) == {
        str(result.id): {
            "label": result.label,
            "content_sha256": result.provenance.content_sha256.hex(),
            "original_size": [result.plan.original_size.width_px, result.plan.original_size.height_px],
            "token_count": result.plan.token_count,
        }
        for result in made.results
    }


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        save([handmade()], tmp_path / "taken")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]


def test_one_id_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected each id once, got 1 twice"):
        dumps([handmade(), handmade()])
