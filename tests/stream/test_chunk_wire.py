"""The chunks and groups that are written by hand: byte for byte what protobuf writes, on every path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monopath.v1 import deferred_cpu_pb2, deferred_cuda_pb2, local_pb2, location_pb2, service_pb2
from monopath_server.delivery.parts import Chunk
from monopath_server.serving.paths import DEFERRED_CPU, DEFERRED_CUDA, LOCAL, PathMessages
from monopath_server.serving.wire import ChunkWriter, GroupWriter

PATHS: dict[str, tuple[PathMessages[Any], Any, Any]] = {
    "local": (LOCAL, service_pb2.StreamLocalResponse, local_pb2.LocalFeatures),
    "deferred_cuda": (
        DEFERRED_CUDA,
        service_pb2.StreamDeferredCudaResponse,
        deferred_cuda_pb2.DeferredCudaFeatures,
    ),
    "deferred_cpu": (DEFERRED_CPU, service_pb2.StreamDeferredCpuResponse, deferred_cpu_pb2.DeferredCpuFeatures),
}
EDGES = (1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 2**28 - 1, 2**28, 2**31 - 1)
"""Where a varint becomes longer."""
LENGTHS = (
    1,
    100,
    110,
    116,
    118,
    119,
    120,
    121,
    122,
    123,
    124,
    125,
    126,
    127,
    128,
    129,
    16_370,
    16_384,
    16_385,
    1 << 20,
)
"""Around those where the length of a chunk, or of what is around it, needs another byte."""


def written(path: str, item_id: int, offset_bytes: int, data: bytes) -> bytes:
    """By the server, as a stream sends it."""
    response = PATHS[path][0].features(item_id, Chunk(offset_bytes, memoryview(data)))
    assert isinstance(response, bytes)
    return response


def expected(path: str, item_id: int, offset_bytes: int, data: bytes) -> Any:
    """The same as a message."""
    _, response, features = PATHS[path]
    chunk = location_pb2.FeatureChunk(offset_bytes=offset_bytes, data=data)
    return response(features=features(id=item_id, chunk=chunk))


@pytest.mark.parametrize("path", PATHS)
@given(
    item_id=st.one_of(st.sampled_from(EDGES), st.integers(1, 2**31 - 1)),
    offset_bytes=st.one_of(st.just(0), st.sampled_from((*EDGES, 2**32 - 1)), st.integers(0, 2**32 - 1)),
    data=st.one_of(st.binary(min_size=1, max_size=300), st.sampled_from(LENGTHS).map(bytes)),
)
def test_a_chunk_is_what_protobuf_writes(path: str, item_id: int, offset_bytes: int, data: bytes) -> None:
    message = expected(path, item_id, offset_bytes, data)
    found = written(path, item_id, offset_bytes, data)
    assert found == message.SerializeToString(deterministic=True)
    assert type(message).FromString(found) == message


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length_bytes", LENGTHS)
def test_every_length_around_a_longer_varint_is_right(path: str, length_bytes: int) -> None:
    data = (bytes(range(256)) * (length_bytes // 256 + 1))[:length_bytes]
    for item_id in (1, 2**31 - 1):
        for offset_bytes in (0, *EDGES, 2**32 - 1):
            message = expected(path, item_id, offset_bytes, data)
            assert written(path, item_id, offset_bytes, data) == message.SerializeToString()


def test_a_part_of_larger_memory_is_written_without_the_rest() -> None:
    memory = memoryview(bytes(range(200)))
    found = service_pb2.StreamDeferredCpuResponse.FromString(
        ChunkWriter(service_pb2.StreamDeferredCpuResponse.DESCRIPTOR).write(3, 50, memory[50:60])
    )
    assert found.features.chunk.data == bytes(range(50, 60))
    assert found.features.chunk.offset_bytes == 50
    assert found.features.id == 3


def test_what_is_written_does_not_change_with_the_memory_afterwards() -> None:
    memory = bytearray(b"before")
    found = ChunkWriter(service_pb2.StreamLocalResponse.DESCRIPTOR).write(1, 0, memoryview(memory))
    memory[:] = b"behind"
    assert service_pb2.StreamLocalResponse.FromString(found).features.chunk.data == b"before"


@pytest.mark.parametrize("path", PATHS)
@given(
    parts=st.lists(
        st.tuples(st.sampled_from(EDGES), st.one_of(st.binary(max_size=99), st.sampled_from(LENGTHS).map(bytes)))
    )
)
def test_a_group_is_what_protobuf_writes(path: str, parts: list[tuple[int, bytes]]) -> None:
    responses = [expected(path, item_id, 0, data) for item_id, data in parts]
    found = PATHS[path][0].group([response.SerializeToString() for response in responses])
    message = PATHS[path][1]()
    message.group.responses.extend(responses)
    message.group.SetInParent()
    assert found == message.SerializeToString()


def test_a_response_without_groups_is_refused_at_once() -> None:
    with pytest.raises((TypeError, KeyError)):
        GroupWriter(service_pb2.GetCapabilitiesResponse.DESCRIPTOR)


def test_a_response_without_features_is_refused_at_once() -> None:
    with pytest.raises((TypeError, KeyError)):
        ChunkWriter(service_pb2.GetCapabilitiesResponse.DESCRIPTOR)
