"""Shared memory of a scripted server: real segments, good handles and bad ones."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from monopath.shared_memory import HEADER_BYTES, SegmentOwner, WritableSegment, load_segment, write_generation
from monopath.v1 import event_pb2, location_pb2
from tests.clients import wire
from tests.clients.fake_server import Script

NONCE = bytes(range(32))


class ServerMemory:
    """Segments of a scripted server. As a context it takes them away at its end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.owner = SegmentOwner(directory)
        self.segments: dict[str, WritableSegment] = {}
        self.released: queue.SimpleQueue[int] = queue.SimpleQueue()
        """Ids of the releases that came, on whatever stream."""
        probe = self.owner.create(4096)
        probe.memory[: len(NONCE)] = NONCE
        self.offer = event_pb2.SharedMemoryOffer(
            probe=location_pb2.SharedMemoryProbe(name=probe.name, nonce=NONCE),
        )
        self.offer.lease_timeout.FromSeconds(30)
        self._generations = itertools.count(1)

    def put(self, data: bytes, *, offset_bytes: int = HEADER_BYTES) -> location_pb2.SharedMemoryHandle:
        """Put bytes into a segment of their own."""
        segment = self.owner.create(offset_bytes + len(data))
        generation = next(self._generations)
        write_generation(segment.memory, generation)
        segment.memory[offset_bytes : offset_bytes + len(data)] = data
        self.segments[segment.name] = segment
        return location_pb2.SharedMemoryHandle(
            name=segment.name, offset_bytes=offset_bytes, length_bytes=len(data), generation=generation
        )

    def wait_released(self, count: int) -> list[int]:
        """Return the next so many ids that are released, sorted."""
        return sorted(self.released.get(timeout=30) for _ in range(count))

    def load(self, handle: location_pb2.SharedMemoryHandle) -> bytes:
        """Read what a client uploaded."""
        return load_segment(self.directory, handle.name, handle.offset_bytes, handle.length_bytes)

    def whole_item(self, item_id: int, data: bytes, *, path: wire.Wire = wire.CPU, **completion: Any) -> list[Any]:
        """Return plan, handle and completion of an item with these bytes."""
        return [path.plan(item_id), path.handle(item_id, self.put(data)), path.completion(item_id, **completion)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.owner.close()


def item_data(item_id: int) -> bytes:
    """Return the features of an item: 48 bytes that are its own."""
    return bytes((item_id * 16 + index) % 251 for index in range(48))


def serving_memory(
    memory: ServerMemory,
    answer: Callable[[Any], list[Any]] | None = None,
    *,
    path: wire.Wire = wire.CPU,
    limits: Any = wire.LIMITS,
    fallback_count: int = 0,
) -> Script:
    """Return the script of a good server over shared memory that notes what is released."""

    def whole(item: Any) -> list[Any]:
        return memory.whole_item(item.id, item_data(item.id), path=path)

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        output = next(requests).config.output
        assert memory.directory / output.shared_memory.probe.name in memory.directory.iterdir()
        yield path.ready(limits=limits, shared_memory=memory.offer)
        counts = {"completion": 0, "error": 0}
        for request in requests:
            match request.WhichOneof("payload"):
                case "item":
                    for response in (answer or whole)(request.item):
                        kind = response.WhichOneof("payload")
                        counts.update({kind: counts[kind] + 1} if kind in counts else {})
                        yield response
                case "release":
                    memory.released.put(request.release.id)
                case _:
                    pass
        summary = path.summary(counts["completion"], counts["error"])
        summary.summary.fallback_count = fallback_count
        yield summary

    return script
