"""Shared memory as a raw client uses it: its probe, handles of its own segments, and mappings of the server's.

The mapping is written anew here, from `protos/monopath/v1/location.proto`, so that it can find mistakes of the code
that servers and clients share.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from monopath.shared_memory import DEFAULT_DIRECTORY, SegmentOwner, WritableSegment
from monopath.v1 import image_pb2, local_pb2, location_pb2, service_pb2

__all__ = [
    "ClientMemory",
    "MappedSegment",
    "located_features",
    "located_file",
    "located_pixels",
    "segment_names",
    "shared_directory",
]

NONCE_BYTES = 32


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """A server's segment, mapped for reading as long as this lives."""

    handle: location_pb2.SharedMemoryHandle
    memory: mmap.mmap

    @classmethod
    def open(cls, directory: Path, handle: location_pb2.SharedMemoryHandle) -> Self:
        """Map it. Raises OSError where there is none, AssertionError where it is not what the contract says."""
        descriptor = os.open(directory / handle.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            memory = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        mapped = cls(handle, memory)
        assert handle.length_bytes > 0
        assert handle.offset_bytes + handle.length_bytes <= len(memory)
        assert mapped.generation == handle.generation
        return mapped

    @property
    def generation(self) -> int:
        """Which use of the segment its header says now."""
        assert self.memory[:8] == b"monopath"
        return int.from_bytes(self.memory[8:16], "little")

    @property
    def data(self) -> bytes:
        """A copy of the bytes as they are now."""
        start = self.handle.offset_bytes
        return self.memory[start : start + self.handle.length_bytes]

    @property
    def sha256(self) -> str:
        """Of the bytes as they are now."""
        return hashlib.sha256(self.data).hexdigest()


class ClientMemory:
    """A client's own segments: a probe, and whatever it puts there. Gone on every way out."""

    def __init__(self, directory: Path = DEFAULT_DIRECTORY) -> None:
        self.directory = directory
        self._owner = SegmentOwner(directory)
        self.probe = _probe_of(self._owner)
        self._generation = 0
        self.segments: dict[str, WritableSegment] = {}
        """By name."""

    @property
    def owner_name(self) -> str:
        """What the names of all its segments begin with."""
        return self.probe.name.rpartition("-")[0]

    def put(self, data: bytes, *, offset_bytes: int = 0) -> location_pb2.SharedMemoryHandle:
        """Put bytes into a segment of their own."""
        segment = self._owner.create(offset_bytes + len(data))
        segment.memory[offset_bytes:] = data
        self.segments[segment.name] = segment
        return self.handle(segment.name, offset_bytes, len(data))

    def handle(self, name: str, offset_bytes: int, length_bytes: int) -> location_pb2.SharedMemoryHandle:
        """A handle with these values, true or not, in the next generation."""
        self._generation += 1
        return location_pb2.SharedMemoryHandle(
            name=name, offset_bytes=offset_bytes, length_bytes=length_bytes, generation=self._generation
        )

    def name(self) -> str:
        """A name that a segment of this client could have."""
        return f"{self.owner_name}-{secrets.token_hex(16)}"

    def close(self) -> None:
        """Take everything away."""
        self._owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.close()


def _probe_of(owner: SegmentOwner) -> location_pb2.SharedMemoryProbe:
    """A segment with a secret in it."""
    segment = owner.create(4096)
    nonce = secrets.token_bytes(NONCE_BYTES)
    segment.memory[:NONCE_BYTES] = nonce
    return location_pb2.SharedMemoryProbe(name=segment.name, nonce=nonce)


def located_file(handle: location_pb2.SharedMemoryHandle) -> image_pb2.ImageSource:
    """An image file behind a handle."""
    return image_pb2.ImageSource(encoded=image_pb2.EncodedImage(shared_memory=handle))


def located_pixels(
    handle: location_pb2.SharedMemoryHandle,
    width_px: int,
    height_px: int,
    pixel_format: image_pb2.PixelFormat.ValueType = image_pb2.PIXEL_FORMAT_RGB8,
) -> image_pb2.ImageSource:
    """Raw pixels behind a handle."""
    return image_pb2.ImageSource(
        pixels=image_pb2.RawPixels(shared_memory=handle, width_px=width_px, height_px=height_px, format=pixel_format)
    )


def located_features(item_id: int, handle: location_pb2.SharedMemoryHandle) -> Any:
    """The request that says where an announced item's bytes are."""
    return service_pb2.StreamLocalRequest(item_features=local_pb2.LocalItemFeatures(id=item_id, shared_memory=handle))


def segment_names(directory: Path) -> set[str]:
    """Names of all segments in a directory, without the owners' files."""
    return {path.name for path in directory.iterdir() if path.name.count("-") == 2}


@contextmanager
def shared_directory() -> Iterator[Path]:
    """A fresh directory in shared memory. Whatever is in it is gone on every way out."""
    directory = Path(tempfile.mkdtemp(prefix="monopath-test-", dir=DEFAULT_DIRECTORY))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
