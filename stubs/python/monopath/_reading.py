"""From the bytes of a response to what it says, without a copy of the features in it.

protobuf copies the bytes of a field out of its message, into memory that is fresh each time; features are by far the
most of what comes. So chunks are read by hand, and groups of responses one by one. Whatever is not laid out as every
writer does it is protobuf's to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from monopath._errors import ProtocolError
from monopath._messages import AnyResponse, Chunk, ServerMessage, read_response
from monopath.v1 import location_pb2, service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc
    from google.protobuf.descriptor import Descriptor

__all__ = ["Received", "ResponseReader", "messages_of", "stream_method"]

Received: TypeAlias = AnyResponse | Chunk | tuple[AnyResponse | Chunk, ...]
"""A response; a chunk in place of one that has it; several, in their order, that came as a group."""

_VARINT = 0
_LENGTH_DELIMITED = 2
_MAX_SHIFT = 63


class _Unusual(Exception):
    """Bytes that are laid out in another way, or are none of a response."""


class _Cursor:
    """A place in bytes."""

    __slots__ = ("at", "end", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0
        self.end = len(view)

    def varint(self) -> int:
        """Take a number."""
        value = shift = 0
        while self.at < self.end and shift <= _MAX_SHIFT:
            byte = self.view[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise _Unusual

    def bytes(self) -> memoryview:
        """Take bytes behind their length."""
        length_bytes = self.varint()
        start = self.at
        self.at += length_bytes
        if self.at > self.end:
            raise _Unusual
        return self.view[start : self.at]

    def expect(self, tag: int) -> None:
        """Take a field's tag, which has to be this one."""
        if self.varint() != tag:
            raise _Unusual

    def rest(self, tag: int) -> memoryview:
        """Take a field of bytes that is the last one."""
        self.expect(tag)
        taken = self.bytes()
        if self.at != self.end:
            raise _Unusual
        return taken


class ResponseReader:
    """Reads the responses of one path. To be given to gRPC as their deserialiser."""

    def __init__(self, response: type[Any]) -> None:
        """`response` is the path's response; numbers of fields are read from its descriptor."""
        self._parse = response.FromString
        arms = response.DESCRIPTOR.fields_by_name
        features, chunk = arms["features"].message_type.fields_by_name, location_pb2.FeatureChunk.DESCRIPTOR
        self._features_tag = _tag(response.DESCRIPTOR, "features")
        self._group_tag = _tag(response.DESCRIPTOR, "group")
        self._response_tag = _tag(arms["group"].message_type, "responses")
        self._id_tag = features["id"].number << 3 | _VARINT
        self._chunk_tag = features["chunk"].number << 3 | _LENGTH_DELIMITED
        self._offset_tag = chunk.fields_by_name["offset_bytes"].number << 3 | _VARINT
        self._data_tag = _tag(chunk, "data")

    def __call__(self, data: bytes) -> Received:
        """Read a response. Raises google.protobuf.message.DecodeError for bytes that are none."""
        try:
            cursor = _Cursor(memoryview(data))
            tag = cursor.varint()
            if tag == self._features_tag:
                return self._chunk(cursor)
            if tag == self._group_tag:
                return self._group(cursor)
        except _Unusual:
            pass
        response: AnyResponse = self._parse(data)
        return response

    def _group(self, cursor: _Cursor) -> tuple[AnyResponse | Chunk, ...]:
        inner = _Cursor(cursor.bytes())
        if cursor.at != cursor.end:
            raise _Unusual
        responses: list[AnyResponse | Chunk] = []
        while inner.at < inner.end:
            inner.expect(self._response_tag)
            responses.append(self._one(inner.bytes()))
        return tuple(responses)

    def _one(self, view: memoryview) -> AnyResponse | Chunk:
        try:
            cursor = _Cursor(view)
            if cursor.varint() == self._features_tag:
                return self._chunk(cursor)
        except _Unusual:
            pass
        response: AnyResponse = self._parse(bytes(view))
        return response

    def _chunk(self, cursor: _Cursor) -> Chunk:
        """Read a chunk whose response's tag was taken."""
        features = _Cursor(cursor.bytes())
        if cursor.at != cursor.end:
            raise _Unusual
        features.expect(self._id_tag)
        item_id = features.varint()
        if item_id >= 1 << 31:
            raise _Unusual  # negative, and none that this client sent
        chunk = _Cursor(features.rest(self._chunk_tag))
        offset_bytes = 0
        tag = chunk.varint()
        if tag == self._offset_tag:
            offset_bytes = chunk.varint()
            tag = chunk.varint()
        if tag != self._data_tag:
            raise _Unusual
        data = chunk.bytes()
        if chunk.at != chunk.end:
            raise _Unusual
        return Chunk(item_id, offset_bytes, data)


def messages_of(received: Received) -> Iterator[ServerMessage]:
    """Yield what the server says, as far as this release knows it. Raises ProtocolError for a group in a group."""
    for response in received if isinstance(received, tuple) else (received,):
        if isinstance(response, Chunk):
            yield response
            continue
        if response.WhichOneof("payload") == "group":
            # One that was not read by hand, or is in another one.
            if isinstance(received, tuple):
                raise ProtocolError("Expected a group of responses, got one with a group in it")
            yield from messages_of(tuple(response.group.responses))
            continue
        message = read_response(response)
        if message is not None:
            yield message


def stream_method(channel: grpc.Channel | grpc.aio.Channel, name: str) -> object:
    """Return what calls a streaming method of the service: as the generated stub does, but reading by hand."""
    service = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"]
    method = service.methods_by_name[name]
    return channel.stream_stream(
        f"/{service.full_name}/{name}",
        request_serializer=getattr(service_pb2, method.input_type.name).SerializeToString,
        response_deserializer=ResponseReader(getattr(service_pb2, method.output_type.name)),
    )


def _tag(message: Descriptor, name: str) -> int:
    return message.fields_by_name[name].number << 3 | _LENGTH_DELIMITED
