"""SMG's messages, made here and read by the package that SMG and its engines read them with, over a real call too."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from smg_grpc_proto.generated import (
    common_pb2,
    sglang_scheduler_pb2,
    tokenspeed_encoder_pb2,
    tokenspeed_scheduler_pb2,
    vllm_engine_pb2,
    vllm_engine_pb2_grpc,
)

from monopath import Result
from monopath.adapters import smg
from monopath.adapters.digests import media_digest
from monopath.prompts import QWEN_VL, ImageRange
from tests.adapters.conftest import Make

TYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "uint8": torch.uint8,
    "int64": torch.int64,
}
"""As SMG's servicers know them (grpc_servicer/smg_grpc_servicer/tensor_wire.py)."""
RANGES = [ImageRange(10 * place + 1, 4 + place) for place in range(3)]
GRID_KEYS = {"kimi-k3": "grid_thws", "qwen2.5-vl": "image_grid_thw", "kimi-vl-a3b": "image_grid_hws"}


def read(tensor: Any) -> torch.Tensor:
    """Do what a servicer does with a `TensorData`: its length has to be that of its shape."""
    payload = tensor.data if hasattr(tensor, "data") else tensor.inline
    flat = torch.frombuffer(bytearray(payload), dtype=TYPES[tensor.dtype])
    return flat.reshape(*tensor.shape)


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def _grids(results: list[Result[Any]], key: str) -> list[list[int]]:
    grids = [result.plan.patch_grid for result in results]
    thw = [[grid.t, grid.h, grid.w] for grid in grids]
    return [grid[1:] for grid in thw] if key == "image_grid_hws" else thw


def _check_vllm(message: Any, results: list[Result[Any]], key: str) -> None:
    """Split a message into images as vLLM's servicer does, and hold each to its result."""
    tensors = {name: read(tensor) for name, tensor in message.model_specific_tensors.items()}
    assert set(tensors) == {key, "patches_per_image"} == set(message.batched_keys)
    assert list(message.keep_on_cpu_keys) == ([] if key == "image_grid_hws" else [key])
    assert tensors[key].tolist() == _grids(results, key)
    sizes = tensors[message.flat_keys["pixel_values"]].flatten().to(torch.int64).tolist()
    rows = torch.split(read(message.pixel_values), sizes)
    assert [_bytes(one) for one in rows] == [result.array.tobytes() for result in results]
    assert [(one.offset, one.length) for one in message.mm_placeholders] == [(one.offset, one.length) for one in RANGES]
    assert list(message.mm_hashes) == [media_digest(result).hex() for result in results]
    assert message.modality == common_pb2.IMAGE
    assert message.im_token_id == 151655


@pytest.mark.parametrize("preset", GRID_KEYS)
@pytest.mark.parametrize("data_type", ["float32", "bfloat16", "float16", "uint8"])
def test_vllms_message_survives_the_wire(preset: str, data_type: str, make: Make) -> None:
    made = make(preset, data_type)
    message = smg.vllm_inputs(made.results, made.ready, RANGES, placeholder_id=151655)
    parsed = vllm_engine_pb2.MultimodalInputs.FromString(message.SerializeToString())
    _check_vllm(parsed, made.results, GRID_KEYS[preset])
    assert read(parsed.pixel_values).dim() == (2 if preset == "qwen2.5-vl" else 4)


def test_a_real_call_carries_them_to_an_engine(make: Make) -> None:
    made = make("qwen2.5-vl", "bfloat16")
    image = QWEN_VL.placeholder
    pad_id = 151655
    prompt = QWEN_VL.expand_token_ids([1, pad_id, 2, pad_id, pad_id], [one.plan for one in made.results], pad_id)
    received: list[Any] = []

    class Engine(vllm_engine_pb2_grpc.VllmEngineServicer):  # type: ignore[misc]  # the package has no types
        def Generate(self, request: Any, _context: Any) -> Iterator[Any]:  # noqa: N802
            received.append(request)
            yield vllm_engine_pb2.GenerateResponse()

    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, options=[("grpc.max_receive_message_length", -1)])
        vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server(Engine(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                request = vllm_engine_pb2.GenerateRequest(
                    request_id="r",
                    tokenized=vllm_engine_pb2.TokenizedInput(original_text=image, input_ids=prompt.token_ids),
                    mm_inputs=smg.vllm_inputs(made.results, made.ready, prompt.ranges, placeholder_id=pad_id),
                )
                list(vllm_engine_pb2_grpc.VllmEngineStub(channel).Generate(request, timeout=30))
        finally:
            server.stop(0).wait(30)
    [arrived] = received
    ids = np.array(arrived.tokenized.input_ids)
    for place, one in zip(arrived.mm_inputs.mm_placeholders, made.results, strict=True):
        # All of a range is image tokens, so that the engine needs no mask.
        assert set(ids[place.offset : place.offset + place.length]) == {pad_id}
        assert place.length == one.plan.token_count
    assert (ids == pad_id).sum() == sum(place.length for place in arrived.mm_inputs.mm_placeholders)
    rows = read(arrived.mm_inputs.pixel_values)
    assert _bytes(rows) == b"".join(result.array.tobytes() for result in made.results)


@pytest.mark.parametrize("preset", GRID_KEYS)
def test_sglangs_message_survives_the_wire(preset: str, make: Make) -> None:
    made, key = make(preset, "bfloat16"), GRID_KEYS[preset]
    message = smg.sglang_inputs(made.results, made.ready, RANGES, placeholder_id=163605)
    parsed = sglang_scheduler_pb2.MultimodalInputs.FromString(message.SerializeToString())
    assert _bytes(read(parsed.pixel_values)) == b"".join(result.array.tobytes() for result in made.results)
    assert read(parsed.model_specific_tensors[key]).tolist() == _grids(made.results, key)
    assert read(parsed.model_specific_tensors["patches_per_image"]).tolist() == [len(one.array) for one in made.results]
    assert list(parsed.modalities) == ["image"] * 3
    assert parsed.im_token_id == 163605
    assert [(one.offset, one.length) for one in parsed.mm_placeholders] == [(one.offset, one.length) for one in RANGES]


@pytest.mark.parametrize("preset", GRID_KEYS)
def test_tokenspeeds_encoder_request_has_one_item_for_each_image(preset: str, make: Make) -> None:
    made, key = make(preset, "bfloat16"), GRID_KEYS[preset]
    request = tokenspeed_encoder_pb2.EncodeRequest(
        request_id="r", mm_inputs=smg.tokenspeed_inputs(made.results, made.ready, RANGES, placeholder_id=7)
    )
    items = tokenspeed_encoder_pb2.EncodeRequest.FromString(request.SerializeToString()).mm_inputs.items
    assert isinstance(items[0], tokenspeed_scheduler_pb2.MultimodalItem)
    for item, result, place in zip(items, made.results, RANGES, strict=True):
        assert _bytes(read(item.encoder_input)) == result.array.tobytes()
        assert read(item.model_specific_tensors[key]).tolist() == _grids([result], key)
        assert item.content_hash == media_digest(result)
        assert [(one.offset, one.length) for one in item.placeholders] == [(place.offset, place.length)]
        assert item.placeholder_token_id == 7
        assert item.modality == common_pb2.IMAGE


def test_an_unknown_placeholder_id_stays_unset(make: Make) -> None:
    made = make("kimi-k3")
    assert not smg.vllm_inputs(made.results, made.ready, RANGES).HasField("im_token_id")
    assert not smg.sglang_inputs(made.results, made.ready, RANGES).HasField("im_token_id")


@pytest.mark.parametrize("adapter", [smg.vllm_inputs, smg.sglang_inputs, smg.tokenspeed_inputs])
def test_another_number_of_ranges_is_refused(adapter: Any, make: Make) -> None:
    made = make("kimi-k3")
    with pytest.raises(ValueError, match="Expected 3 ranges, one for each result, got 2"):
        adapter(made.results, made.ready, RANGES[:2])
