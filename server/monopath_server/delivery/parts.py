"""What a result is sent as: chunks of its bytes, or one handle to them. Plain values; `serving` makes the messages."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from monopath_server.engine.rows import HostRows

__all__ = ["Chunk", "DevicePart", "Part", "SegmentPart", "TransportKind", "chunks", "part_bytes", "part_transport"]


class TransportKind(enum.StrEnum):
    """How bytes travel; the names are those that the contract's capabilities have."""

    INLINE = enum.auto()
    SHARED_MEMORY = enum.auto()
    CUDA_IPC = enum.auto()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of the bytes. To be copied before the next part is asked for."""

    offset_bytes: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """All of the bytes, in a segment of shared memory."""

    name: str
    offset_bytes: int
    length_bytes: int
    generation: int


@dataclass(frozen=True, slots=True)
class DevicePart:
    """All of the bytes, in the memory of a GPU."""

    device_uuid: str
    memory_handle: bytes
    offset_bytes: int
    length_bytes: int
    event_handle: bytes
    generation: int


Part: TypeAlias = Chunk | SegmentPart | DevicePart


def part_bytes(part: Part) -> int:
    """Bytes of features behind a part."""
    return len(part.data) if isinstance(part, Chunk) else part.length_bytes


def part_transport(part: Part) -> TransportKind:
    """How a part travels."""
    match part:
        case Chunk():
            return TransportKind.INLINE
        case SegmentPart():
            return TransportKind.SHARED_MEMORY
        case DevicePart():
            return TransportKind.CUDA_IPC


def chunks(rows: HostRows, chunk_bytes: int) -> Iterator[Part]:
    """The bytes of `rows`, without a copy."""
    view = rows.array.data
    for offset_bytes in range(0, len(view), chunk_bytes):
        yield Chunk(offset_bytes, view[offset_bytes : offset_bytes + chunk_bytes])
