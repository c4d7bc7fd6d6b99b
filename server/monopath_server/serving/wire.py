"""The responses that are written by hand: chunks of features, and groups of responses.

A message object copies its bytes four times on the way to the wire, into memory that is fresh each time, which takes
several times as long as one copy behind a prefix (`tests/bench/bench_delivery.py`). What is written is exactly
what protobuf would write; a test holds that.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.descriptor import Descriptor

from monopath.v1 import location_pb2

__all__ = ["ChunkWriter", "GroupWriter"]

VARINT = 0
LENGTH_DELIMITED = 2


class ChunkWriter:
    """Writes the `features` response of one path, with a chunk in it."""

    def __init__(self, response: Descriptor) -> None:
        """`response` is the path's response; numbers of fields are read from it."""
        features = response.fields_by_name["features"]
        if features.message_type is None:
            raise TypeError(f"Expected a message in {features.full_name}, got none")
        fields = features.message_type.fields_by_name
        chunk_fields = location_pb2.FeatureChunk.DESCRIPTOR.fields_by_name
        self._features_tag = _tag(features.number, LENGTH_DELIMITED)
        self._id_tag = _tag(fields["id"].number, VARINT)
        self._chunk_tag = _tag(fields["chunk"].number, LENGTH_DELIMITED)
        self._offset_tag = _tag(chunk_fields["offset_bytes"].number, VARINT)
        self._data_tag = _tag(chunk_fields["data"].number, LENGTH_DELIMITED)

    def write(self, item_id: int, offset_bytes: int, data: memoryview) -> bytes:
        """The serialised response: one copy of `data`, behind its prefix. `item_id` is positive."""
        # proto3 leaves a zero out.
        offset = self._offset_tag + _varint(offset_bytes) if offset_bytes else b""
        chunk = offset + self._data_tag + _varint(len(data))
        features = self._id_tag + _varint(item_id) + self._chunk_tag + _varint(len(chunk) + len(data)) + chunk
        return b"".join((self._features_tag, _varint(len(features) + len(data)), features, data))


class GroupWriter:
    """Writes the `group` response of one path."""

    def __init__(self, response: Descriptor) -> None:
        """`response` is the path's response; numbers of fields are read from it."""
        group = response.fields_by_name["group"]
        if group.message_type is None:
            raise TypeError(f"Expected a message in {group.full_name}, got none")
        self._group_tag = _tag(group.number, LENGTH_DELIMITED)
        self._response_tag = _tag(group.message_type.fields_by_name["responses"].number, LENGTH_DELIMITED)

    def write(self, responses: Sequence[bytes]) -> bytes:
        """The serialised response that holds serialised ones."""
        pieces: list[bytes] = []
        for response in responses:
            pieces += (self._response_tag, _varint(len(response)), response)
        size_bytes = sum(map(len, pieces))
        return b"".join((self._group_tag, _varint(size_bytes), *pieces))


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
