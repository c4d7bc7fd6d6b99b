"""Features in shared memory: the bytes are right, and stay right, whatever becomes of their server."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from monopath import Client
from monopath.v1 import event_pb2
from tests.clients import wire
from tests.clients.drivers import KINDS, SHARED, map_all
from tests.clients.fake_server import Servicer, serving
from tests.clients.segments import ServerMemory, item_data, serving_memory
from tests.clients.test_results import SHAPE, TYPES

CPU = wire.CPU


@KINDS
@pytest.mark.parametrize("data_type", TYPES)
def test_features_of_every_element_type_are_the_servers_bytes(kind: str, data_type: str, memory: ServerMemory) -> None:
    element_type = TYPES[data_type]
    data = np.random.default_rng(1).integers(0, 256, math.prod(SHAPE) * element_type[1].itemsize, np.uint8).tobytes()

    def answer(item: Any) -> list[Any]:
        plan = CPU.plan(item.id, shape=SHAPE, data_type=element_type[0])
        return [plan, CPU.handle(item.id, memory.put(data)), CPU.completion(item.id)]

    with serving(Servicer(serving_memory(memory, answer))) as address:
        (result,) = map_all(
            kind, address, [b"a"], data_type=data_type, transport="shared_memory", directory=memory.directory
        )
    assert result.array.dtype == element_type[1]
    assert result.array.shape == SHAPE
    assert result.array.tobytes() == data
    tensor = result.torch()
    assert tensor.dtype == element_type[2]
    assert tensor.data_ptr() == result.array.ctypes.data
    assert tensor.view(torch.uint8).numpy().tobytes() == data


@KINDS
def test_features_that_begin_anywhere_in_a_segment_are_found(kind: str, memory: ServerMemory) -> None:
    offsets = {1: 16, 2: 4096, 3: 4096 + 52, 4: 3 * 4096 - 24}

    def answer(item: Any) -> list[Any]:
        handle = memory.put(item_data(item.id), offset_bytes=offsets[item.id])
        return [CPU.plan(item.id), CPU.handle(item.id, handle), CPU.completion(item.id)]

    with serving(Servicer(serving_memory(memory, answer))) as address:
        results = map_all(kind, address, [b"a"] * 4, transport="shared_memory", directory=memory.directory)
    assert [result.array.tobytes() for result in results] == [item_data(item_id) for item_id in offsets]


def test_writes_to_an_array_are_the_callers_own(memory: ServerMemory) -> None:
    with (
        serving(Servicer(serving_memory(memory))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        (result,) = stream.map([b"a"])
        assert result.array.flags.writeable
        result.array[:] = 7.0
        assert (result.torch() == 7.0).all()
        (segment,) = memory.segments.values()
        assert item_data(1) in bytes(segment.memory)


def test_other_items_arrays_stay_right_when_released_memory_is_used_again(memory: ServerMemory) -> None:
    with (
        serving(Servicer(serving_memory(memory))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        results = list(stream.map([b"a"] * 8))
        for result in results[::2]:
            result.release()
        assert memory.wait_released(4) == [1, 3, 5, 7]
        for segment in list(memory.segments.values())[::2]:
            segment.memory[:] = b"x" * segment.size_bytes
        assert [result.array.tobytes() for result in results[1::2]] == [item_data(item_id) for item_id in (2, 4, 6, 8)]


@KINDS
def test_arrays_outlive_their_stream_their_client_and_their_server(kind: str, memory: ServerMemory) -> None:
    with serving(Servicer(serving_memory(memory))) as address:
        results = map_all(kind, address, [b"a", b"b"], transport="shared_memory", directory=memory.directory)
    memory.owner.close()
    memory.segments.clear()
    assert [result.array.tobytes() for result in results] == [item_data(1), item_data(2)]
    results[0].release()
    del results
    gc.collect()
    assert memory.released.empty()


@KINDS
def test_features_may_come_in_chunks_where_the_server_has_no_memory_left(kind: str, memory: ServerMemory) -> None:
    def answer(item: Any) -> list[Any]:
        return (
            CPU.whole_item(item.id, first_value=2.0)
            if item.id == 2
            else memory.whole_item(item.id, item_data(item.id), cache=event_pb2.CACHE_OUTCOME_HIT)
        )

    seen: dict[str, Any] = {}
    with serving(Servicer(serving_memory(memory, answer, fallback_count=1))) as address:
        results = map_all(kind, address, [b"a"] * 3, transport="shared_memory", directory=memory.directory, seen=seen)
    assert [result.array.tobytes() for result in results[::2]] == [item_data(1), item_data(3)]
    assert results[1].array.reshape(-1)[0] == 2.0
    assert [result.cache for result in results] == ["hit", None, "hit"]
    assert seen["summary"].fallback_count == 1
    assert seen["ready"].lease_timeout_seconds == 30.0


def test_many_results_take_no_descriptors(memory: ServerMemory) -> None:
    count = 300
    handle = memory.put(item_data(1))

    def answer(item: Any) -> list[Any]:
        return [CPU.plan(item.id), CPU.handle(item.id, handle), CPU.completion(item.id)]

    with (
        serving(Servicer(serving_memory(memory, answer))) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        (first,) = stream.map([b"a"])
        before = len(list(Path("/proc/self/fd").iterdir()))
        results = list(stream.map([b"a"] * count))
        assert len(list(Path("/proc/self/fd").iterdir())) < before + count // 2
        assert all(result.array.tobytes() == first.array.tobytes() for result in results)
