"""Responses that are read by hand say what protobuf reads, whatever their bytes are."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from monopath._errors import ProtocolError
from monopath._messages import Chunk, read_response
from monopath._reading import ResponseReader, messages_of
from monopath.v1 import (
    deferred_cpu_pb2,
    deferred_cuda_pb2,
    error_pb2,
    event_pb2,
    local_pb2,
    location_pb2,
    service_pb2,
)

PATHS: dict[str, tuple[Any, Any]] = {
    "local": (service_pb2.StreamLocalResponse, local_pb2.LocalFeatures),
    "deferred_cuda": (service_pb2.StreamDeferredCudaResponse, deferred_cuda_pb2.DeferredCudaFeatures),
    "deferred_cpu": (service_pb2.StreamDeferredCpuResponse, deferred_cpu_pb2.DeferredCpuFeatures),
}
CPU = "deferred_cpu"
NUMBERS = st.one_of(st.sampled_from((0, 1, 127, 128, 16_383, 16_384, 2**31 - 1)), st.integers(-5, 2**31 - 1))


def chunk(path: str, item_id: int, offset_bytes: int, data: bytes) -> Any:
    response, features = PATHS[path]
    return response(
        features=features(id=item_id, chunk=location_pb2.FeatureChunk(offset_bytes=offset_bytes, data=data))
    )


def other(path: str, item_id: int) -> Any:
    response, features = PATHS[path]
    handle = location_pb2.SharedMemoryHandle(name="x", length_bytes=5, generation=1)
    return [
        response(error=error_pb2.ItemError(id=item_id, message="bad")),
        response(features=features(id=item_id, shared_memory=handle)),
        response(goaway=event_pb2.Goaway()),
        response(),
    ][item_id % 4]


def group(path: str, responses: list[Any]) -> Any:
    message = PATHS[path][0]()
    message.group.SetInParent()
    message.group.responses.extend(responses)
    return message


def said(received: Any) -> list[object]:
    """What it comes to, with the bytes of chunks as bytes."""
    return [
        (one.id, one.offset_bytes, bytes(one.data)) if isinstance(one, Chunk) else one for one in messages_of(received)
    ]


def expected(path: str, data: bytes) -> list[object]:
    """The same by protobuf alone."""
    response = PATHS[path][0].FromString(data)
    ones = response.group.responses if response.WhichOneof("payload") == "group" else [response]
    if any(one.WhichOneof("payload") == "group" for one in ones):
        raise ProtocolError("nested")
    messages = [message for one in ones if (message := read_response(one)) is not None]
    return [(one.id, one.offset_bytes, one.data) if isinstance(one, Chunk) else one for one in messages]


@st.composite
def responses(draw: st.DrawFn, path: str) -> Any:
    numbers = st.tuples(NUMBERS, st.integers(0, 2**32 - 1) | st.just(0), st.binary(max_size=200))
    chunks = numbers.map(lambda found: chunk(path, *found))
    one = st.one_of(chunks, st.integers(0, 3).map(lambda number: other(path, number)))
    return draw(st.one_of(one, st.lists(one, max_size=5).map(lambda ones: group(path, ones))))


@pytest.mark.parametrize("path", PATHS)
@given(data=st.data())
def test_every_response_says_what_protobuf_reads(path: str, data: st.DataObject) -> None:
    written = data.draw(responses(path)).SerializeToString()
    assert said(ResponseReader(PATHS[path][0])(written)) == expected(path, written)


@pytest.mark.parametrize("path", PATHS)
@given(data=st.data())
def test_bytes_that_were_cut_changed_or_joined_say_what_protobuf_reads(path: str, data: st.DataObject) -> None:
    written = bytearray(data.draw(responses(path)).SerializeToString())
    written += data.draw(st.one_of(st.just(b""), responses(path).map(lambda message: message.SerializeToString())))
    for _ in range(data.draw(st.integers(0, 2))):
        if written:
            written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    wire = bytes(written[: data.draw(st.integers(0, len(written)))])
    try:
        wanted: object = expected(path, wire)
    except (DecodeError, ProtocolError) as error:
        wanted = type(error)
    try:
        found: object = said(ResponseReader(PATHS[path][0])(wire))
    except (DecodeError, ProtocolError) as error:
        found = type(error)
    assert found == wanted


def test_the_bytes_of_a_chunk_are_not_copied() -> None:
    wire = chunk(CPU, 3, 1 << 20, bytes(range(200))).SerializeToString()
    found = ResponseReader(PATHS[CPU][0])(wire)
    assert isinstance(found, Chunk)
    assert isinstance(found.data, memoryview)
    assert found.data.obj is wire


def test_a_group_in_a_group_breaks_the_grammar() -> None:
    inner = group(CPU, [other(CPU, 0), other(CPU, 1)])
    received = ResponseReader(PATHS[CPU][0])(group(CPU, [inner, other(CPU, 0)]).SerializeToString())
    with pytest.raises(ProtocolError, match="got one with a group in it"):
        list(messages_of(received))
