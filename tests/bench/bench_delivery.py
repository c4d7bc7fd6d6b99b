"""How features of 12 MB reach a Python client: `python -m tests.bench.bench_delivery [rounds]`.

A server in a process of its own answers from its cache, so that the delivery is what takes the time; the client reads
every byte. Rounds of both transports take turns, so that what else the machine does hits both. The bar is 4 times as
fast as inline. Measures; checks nothing but the sums of what was read.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, Literal

import numpy as np

from monopath import Client, Result
from monopath.v1 import deferred_cpu_pb2, location_pb2, service_pb2
from monopath_server.serving.wire import ChunkWriter
from tests.support.processes import serving
from tests.support.stream import photo, png

ITEM_COUNT = 64
SIDE_PX = 2048
CHUNK_BYTES = 1 << 20
CHUNK_REPETITIONS = 30
MIB = 1 << 20


def image() -> bytes:
    """A small file of a large picture: what travels is its features."""
    return png(np.repeat(np.repeat(photo(SIDE_PX // 64, SIDE_PX // 64), 64, axis=0), 64, axis=1))


def read_all(results: Iterator[Result[Any]]) -> tuple[int, int]:
    """Read every byte of every result, and let go of it. Returns their number and the sum of their 8-byte words."""
    byte_count = total = 0
    for result in results:
        with result:
            words = result.array.reshape(-1).view(np.uint64)
            byte_count += words.nbytes
            total = (total + int(words.sum())) % 2**64
    return byte_count, total


class Delivery:
    """One way for features to travel, timed in rounds."""

    def __init__(self, client: Client, transport: Literal["inline", "shared_memory"], data: bytes) -> None:
        self._client = client
        self._transport = transport
        self._data = data
        self.seconds: list[float] = []
        self.read: set[tuple[int, int]] = set()

    def run(self, item_count: int = ITEM_COUNT) -> None:
        """One stream of items; its opening and end are counted too."""
        started = time.perf_counter()
        with self._client.deferred_cpu(preset="kimi-k3", data_type="uint8", transport=self._transport) as stream:
            self.read.add(read_all(stream.map(repeat(self._data, item_count))))
        self.seconds.append(time.perf_counter() - started)


def report(name: str, seconds: list[float], byte_count: int) -> float:
    """Print one line of a way; return its median."""
    median = statistics.median(seconds)
    sys.stdout.write(
        f"{name:>28} {median * 1e3:10.1f} {min(seconds) * 1e3:10.1f} {max(seconds) * 1e3:10.1f} "
        f"{byte_count / median / 1e9:8.2f}\n"
    )
    return median


def bench_transports(round_count: int, first: str) -> None:
    """`first` is the transport whose stream fills the cache: of what is cached elsewhere, a segment is a copy."""
    data = image()
    with serving("--address", "127.0.0.1:0", "--cuda", "off") as server, Client(server.address) as client:
        ways = {
            "inline": Delivery(client, "inline", data),
            "shared_memory": Delivery(client, "shared_memory", data),
        }
        order = [first, *(name for name in ways if name != first)]
        for name in order:
            ways[name].run(4)
            ways[name].seconds.clear()
            ways[name].read.clear()
        for _ in range(round_count):
            for way in ways.values():
                way.run()
    assert ways["inline"].read == ways["shared_memory"].read
    ((byte_count, _),) = ways["inline"].read
    medians = {
        name: report(f"{name}, cached by {'it' if name == first else 'the other'}", way.seconds, byte_count)
        for name, way in ways.items()
    }
    ratio = medians["inline"] / medians["shared_memory"]
    sys.stdout.write(f"{'':>28} shared memory is {ratio:.1f} times as fast (bar: 4)\n")


def bench_chunks() -> None:
    """The messages of 12 MB of features: as objects, and written by hand."""
    data = memoryview(np.random.default_rng(1).integers(0, 256, 12 * MIB, dtype=np.uint8).tobytes())
    offsets = range(0, len(data), CHUNK_BYTES)
    writer = ChunkWriter(service_pb2.StreamDeferredCpuResponse.DESCRIPTOR)

    def by_message() -> list[bytes]:
        written = []
        for offset in offsets:
            chunk = location_pb2.FeatureChunk(offset_bytes=offset, data=bytes(data[offset : offset + CHUNK_BYTES]))
            features = deferred_cpu_pb2.DeferredCpuFeatures(id=7, chunk=chunk)
            written.append(service_pb2.StreamDeferredCpuResponse(features=features).SerializeToString())
        return written

    def by_hand() -> list[bytes]:
        return [writer.write(7, offset, data[offset : offset + CHUNK_BYTES]) for offset in offsets]

    assert by_message() == by_hand()
    ways: dict[str, Callable[[], list[bytes]]] = {"message objects": by_message, "ChunkWriter": by_hand}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(CHUNK_REPETITIONS):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
    medians = [report(name, seconds[name], len(data)) for name in ways]
    sys.stdout.write(f"{'':>28} ChunkWriter is {medians[0] / medians[1]:.1f} times as fast\n")


def main(round_count: int) -> None:
    """Print a line for each way."""
    sys.stdout.write(f"{'':>28} {'median ms':>10} {'min':>10} {'max':>10} {'GB/s':>8}\n")
    for first in ("shared_memory", "inline"):
        bench_transports(round_count, first)
    bench_chunks()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
