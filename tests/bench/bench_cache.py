"""How long an image takes that comes again, and many equal ones at once: `python -m tests.bench.bench_cache`.

A server and its client in one event loop, one item at a time. Measures; checks no time. Where features travel in chunks
most of a hit is their way through gRPC, so the time that the server itself spent on the item stands beside it.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import grpc

from monopath.v1 import event_pb2, service_pb2, tensor_pb2
from monopath_server.bench.pictures import picture
from monopath_server.processors.types import Size
from tests.stream.shared_rig import SharedRig, shared_rig
from tests.support.stream import RawStream, encoded, make_config, make_item, preset

CACHE_BYTES = 512 * 1024 * 1024
FIRST_COUNT = 7
HIT_COUNT = 40
STREAM_COUNT = 10
ITEM_COUNT = 10
"""Of each stream."""
SIZES = ((1920, 1080), (4000, 3000))
MISS, HIT = event_pb2.CACHE_OUTCOME_MISS, event_pb2.CACHE_OUTCOME_HIT
COLUMNS = ("image", "config", "transport", "first p50 ms", "hit p50 ms", "hit min ms", "in server ms", "hit/first")


@dataclass
class Times:
    """Milliseconds of items of one kind."""

    answered: list[float] = field(default_factory=list)
    """From sending an item until its completion."""
    in_server: list[float] = field(default_factory=list)
    """From its arrival until its features were there, as its completion says."""


async def answer(stream: RawStream, item: Any, outcome: event_pb2.CacheOutcome.ValueType, times: Times) -> None:
    """Send an item and read up to its completion, past the recording of `stream`, which copies all features."""
    started = time.perf_counter()
    await stream.call.write(item)
    while (response := await stream.call.read()).WhichOneof("payload") != "completion":
        if response is grpc.aio.EOF or response.WhichOneof("payload") not in ("plan", "features"):
            raise RuntimeError(f"Expected an item's events, got {response}")
    times.answered.append((time.perf_counter() - started) * 1e3)
    completion = response.completion
    if completion.cache != outcome:
        raise RuntimeError(f"Expected the cache outcome {outcome}, got {completion.cache}")
    spent = completion.timings
    stages = (spent.planning, spent.queued, spent.decoding, spent.transforming)
    times.in_server.append(sum(stage.ToNanoseconds() for stage in stages) / 1e6)
    await stream.call.write(service_pb2.StreamDeferredCpuRequest(release=event_pb2.Release(id=completion.id)))


async def measure(rig: SharedRig, data: bytes, name: str, *, is_shared: bool) -> tuple[Times, Times]:
    """Times of images that are new, and of one that comes again."""
    arguments: dict[str, Any] = {"processor": preset(name), "data_type": tensor_pb2.DATA_TYPE_BFLOAT16}
    stream = await rig.open(rig.config(**arguments) if is_shared else make_config(**arguments))
    first, again = Times(), Times()
    for number in range(FIRST_COUNT + 1):
        # A byte behind the end of the file makes other content of the same cost; the first one finds cold memory.
        item = make_item(number + 1, encoded(data + bytes([number])))
        await answer(stream, item, MISS, first if number else Times())
    for number in range(HIT_COUNT):
        await answer(stream, make_item(1000 + number, encoded(data + bytes([FIRST_COUNT]))), HIT, again)
    await stream.finish(grammar=False)
    return first, again


async def crowd(data: bytes) -> tuple[float, int]:
    """Milliseconds until many equal images on many streams are all answered, and how many of them were made."""
    # Pixels are counted before anyone can know that they are equal: so many are more than a server takes by default.
    async with shared_rig(cache_bytes=CACHE_BYTES, max_process_pixels=1 << 31, max_process_bytes=1 << 33) as rig:
        config = rig.config(data_type=tensor_pb2.DATA_TYPE_BFLOAT16)
        streams = [await rig.open(config) for _ in range(STREAM_COUNT)]

        async def use(stream: RawStream) -> None:
            for item_id in range(1, ITEM_COUNT + 1):
                await stream.call.write(make_item(item_id, encoded(data)))
            await stream.call.done_writing()
            while (response := await stream.call.read()) is not grpc.aio.EOF:
                if response.WhichOneof("payload") == "error":
                    raise RuntimeError(f"Expected features, got {response.error}")

        started = time.perf_counter()
        await asyncio.gather(*(use(stream) for stream in streams))
        cache = rig.server.engines.cache
        return (time.perf_counter() - started) * 1e3, -1 if cache is None else cache.miss_count


async def main() -> None:
    """Print one line for each kind of image, and one for the crowd."""
    sys.stdout.write("{:>10} {:>10} {:>10} {:>13} {:>11} {:>11} {:>13} {:>10}\n".format(*COLUMNS))
    for width_px, height_px in SIZES:
        data = picture(Size(width_px, height_px)).data
        for name in ("kimi-k2.5", "kimi-k3"):
            for is_shared in (False, True):
                async with shared_rig(cache_bytes=CACHE_BYTES) as rig:
                    first, again = await measure(rig, data, name, is_shared=is_shared)
                first_ms, hit_ms = statistics.median(first.answered), statistics.median(again.answered)
                sys.stdout.write(
                    f"{f'{width_px}x{height_px}':>10} {name:>10} {'segments' if is_shared else 'chunks':>10} "
                    f"{first_ms:13.2f} {hit_ms:11.2f} {min(again.answered):11.2f} "
                    f"{statistics.median(again.in_server):13.2f} {hit_ms / first_ms:10.3f}\n"
                )
                sys.stdout.flush()
    spent, made = await crowd(picture(Size(*SIZES[-1])).data)
    equal = f"{STREAM_COUNT * ITEM_COUNT} equal images of {SIZES[-1][0]}x{SIZES[-1][1]} on {STREAM_COUNT} streams"
    sys.stdout.write(f"{equal}: {spent:.0f} ms, made {made} time(s)\n")


if __name__ == "__main__":
    asyncio.run(main())
