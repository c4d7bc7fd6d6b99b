"""Results, batches and tensors: the bytes are those of the wire, in every element type."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from monopath import GridThw, ItemError, LocalFeatures, Result, Size, concatenate
from monopath.v1 import tensor_pb2
from tests.clients import wire
from tests.clients.drivers import map_all
from tests.clients.fake_server import Servicer, answering, serving

TYPES: dict[str, tuple[Any, np.dtype[Any], Any]] = {
    "uint8": (tensor_pb2.DATA_TYPE_UINT8, np.dtype(np.uint8), torch.uint8),
    "float32": (tensor_pb2.DATA_TYPE_FLOAT32, np.dtype(np.float32), torch.float32),
    "float16": (tensor_pb2.DATA_TYPE_FLOAT16, np.dtype(np.float16), torch.float16),
    "bfloat16": (tensor_pb2.DATA_TYPE_BFLOAT16, np.dtype(ml_dtypes.bfloat16), torch.bfloat16),
}
SHAPE = (2, 3, 2, 2)


def _receive(data_type: str, data: bytes, *, config_sha256: bytes = wire.CONFIG_SHA256) -> Result[Any]:
    def answer(item: Any) -> list[Any]:
        return [
            wire.CPU.plan(item.id, shape=SHAPE, data_type=TYPES[data_type][0]),
            wire.CPU.chunk(item.id, data[:7]),
            wire.CPU.chunk(item.id, data[7:], 7),
            wire.CPU.completion(item.id, config_sha256=config_sha256),
        ]

    with serving(Servicer(answering(answer, config_sha256=config_sha256))) as address:
        (result,) = map_all("sync", address, [b"a"], data_type=data_type)
    assert isinstance(result, Result)
    return result


def _random_bytes(data_type: str) -> bytes:
    size_bytes: int = math.prod(SHAPE) * TYPES[data_type][1].itemsize
    return np.random.default_rng(7).integers(0, 256, size_bytes, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("data_type", TYPES)
def test_the_array_holds_the_bytes_that_were_sent(data_type: str) -> None:
    data = _random_bytes(data_type)
    result = _receive(data_type, data)
    assert result.array.dtype == TYPES[data_type][1]
    assert result.array.shape == SHAPE
    assert result.array.tobytes() == data
    assert result.array.flags.writeable
    assert result.sha256() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("data_type", TYPES)
def test_the_tensor_shares_the_arrays_memory_and_its_bits(data_type: str) -> None:
    data = _random_bytes(data_type)
    result = _receive(data_type, data)
    tensor = result.torch()
    assert tensor.dtype == TYPES[data_type][2]
    assert tuple(tensor.shape) == SHAPE
    assert tensor.data_ptr() == result.array.ctypes.data
    assert tensor.view(torch.uint8).numpy().tobytes() == data


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_finished_features_are_sent_with_the_bits_they_have(data_type: str, library: str) -> None:
    sent: list[Any] = []

    def script(requests: Any, _context: Any) -> Any:
        next(requests)
        yield wire.LOCAL.ready()
        for request in requests:
            sent.append(request)
            if request.WhichOneof("payload") == "item_features":
                yield wire.LOCAL.error(request.item_features.id)
        yield wire.LOCAL.summary(failed=1)

    data = _random_bytes(data_type)
    array = np.frombuffer(bytearray(data), dtype=TYPES[data_type][1]).reshape(SHAPE)
    if library == "torch":
        bits = np.frombuffer(bytearray(data), dtype=f"i{array.itemsize}").reshape(SHAPE)
        features: Any = torch.from_numpy(bits).view(TYPES[data_type][2])
    else:
        features = array
    with serving(Servicer(script)) as address:
        local = LocalFeatures(features, Size(3, 2), GridThw(1, 1, 2), token_count=1)
        map_all("sync", address, [local], method="local", data_type=data_type)
    item, chunk = sent[0].item, sent[1].item_features
    assert chunk.chunk.data == data
    assert (item.features.data_type, tuple(item.features.shape)) == (TYPES[data_type][0], SHAPE)
    assert item.features.size_bytes == len(data)


def test_strided_and_big_endian_features_are_sent_in_the_contracts_layout() -> None:
    from monopath._images import tensor_array

    whole = np.arange(48, dtype=">f4").reshape(4, 3, 2, 2)
    sent = tensor_array(whole[::2])
    assert sent.dtype == np.dtype("<f4")
    assert sent.flags.c_contiguous
    np.testing.assert_array_equal(sent, whole[::2])


def test_features_of_another_element_type_or_no_array_at_all_are_type_errors() -> None:
    from monopath._images import tensor_array

    for features in (np.zeros(3), np.zeros(3, np.int32), torch.zeros(3, dtype=torch.float64), [1.0]):
        with pytest.raises(TypeError, match="Expected features"):
            tensor_array(features)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ValueError, match="on the CPU"):
        tensor_array(torch.zeros(3, device="meta"))


def test_a_batch_has_the_rows_of_its_images_one_after_another() -> None:
    results = [_receive("bfloat16", _random_bytes("bfloat16")) for _ in range(3)]
    batch = concatenate(results)
    assert batch.pixel_values.shape == (6, 3, 2, 2)
    assert batch.pixel_values.tobytes() == _random_bytes("bfloat16") * 3
    assert batch.grid_thws.tolist() == [[1, 1, 2]] * 3
    assert batch.token_counts == (2, 2, 2)
    assert batch.config_sha256 == wire.CONFIG_SHA256
    assert batch.torch().dtype == torch.bfloat16


def test_a_batch_of_different_configs_or_element_types_is_refused() -> None:
    first = _receive("uint8", _random_bytes("uint8"))
    for other in (
        _receive("float16", _random_bytes("float16")),
        _receive("uint8", _random_bytes("uint8"), config_sha256=b"other" * 6),
    ):
        with pytest.raises(ValueError, match="Expected results of one path, config and element type"):
            concatenate([first, other])
    with pytest.raises(ValueError, match="at least one"):
        concatenate([])


def test_a_batch_with_a_failed_item_raises_the_items_error() -> None:
    good = _receive("uint8", _random_bytes("uint8"))
    failed: Result[Any] = Result(item_id=2, label="", path=good.path, error=ItemError("IMAGE_EMPTY", "no bytes"))
    with pytest.raises(ItemError, match="no bytes"):
        concatenate([good, failed])
