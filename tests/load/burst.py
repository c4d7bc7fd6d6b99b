"""Case 15: many streams with large images at once, while somebody asks for the server's health all the time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

import grpc

from monopath.v1 import tensor_pb2
from tests.load.health_probe import HealthAnswers, probing
from tests.support.case_inputs import encode
from tests.support.footprint import cpu_seconds, peak_rss_bytes
from tests.support.processes import serving
from tests.support.stream import RawStream, encoded, make_config, make_item

__all__ = ["BurstOutcome", "burst"]

IMAGES_PER_STREAM = 4
CHANNEL_COUNT = 4
IDLE_SECONDS = 5.0


@dataclass
class BurstOutcome:
    """What became of the items, and how health did meanwhile."""

    stream_count: int
    ends: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    overloaded_without_hint_count: int = 0
    health: HealthAnswers = field(default_factory=HealthAnswers)
    burst_seconds: float = 0.0
    peak_rss_bytes: int = 0
    idle_cpu: float = 0.0
    """Part of one processor that the server used once all was over."""

    @property
    def complaints(self) -> list[str]:
        """What is not as it must be, apart from times."""
        found = []
        if self.ends.total() != self.stream_count * IMAGES_PER_STREAM or set(self.ends) - {"completed", "OVERLOADED"}:
            found.append(
                f"Expected {self.stream_count * IMAGES_PER_STREAM} items completed or OVERLOADED, got {self.ends}"
            )
        if not self.ends["completed"]:
            found.append("Expected some completed items, got none")
        if self.overloaded_without_hint_count:
            found.append(
                f"Expected a time to retry with each OVERLOADED, {self.overloaded_without_hint_count} have none"
            )
        if self.codes != {"OK": self.stream_count}:
            found.append(f"Expected {self.stream_count} streams to end OK, got {self.codes}")
        if set(self.health.statuses) != {"SERVING"}:
            found.append(f"Expected SERVING all the time, got {Counter(self.health.statuses)}")
        return found


async def burst(stream_count: int, width_px: int, height_px: int, *arguments: str, measure_idle: bool) -> BurstOutcome:
    """Open all streams at once, send four images on each, and ask for health 20 times a second."""
    from PIL import Image

    image = encode(Image.new("RGB", (width_px, height_px), (90, 140, 60)), "JPEG", quality=50)
    outcome = BurstOutcome(stream_count)
    with serving("--address", "127.0.0.1:0", "--cuda", "off", "--cache-bytes", "0", *arguments) as server:
        channels = [grpc.aio.insecure_channel(server.address, _OWN_CONNECTION) for _ in range(CHANNEL_COUNT)]
        async with probing(server.address) as outcome.health:
            started = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for index in range(stream_count):
                    group.create_task(_one_stream(channels[index % CHANNEL_COUNT], image, outcome))
            outcome.burst_seconds = time.monotonic() - started
        for channel in channels:
            await channel.close()
        outcome.peak_rss_bytes = peak_rss_bytes(server.pid)
        if measure_idle:
            used = cpu_seconds(server.pid)
            await asyncio.sleep(IDLE_SECONDS)
            outcome.idle_cpu = (cpu_seconds(server.pid) - used) / IDLE_SECONDS
    return outcome


_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


async def _one_stream(channel: grpc.aio.Channel, image: bytes, outcome: BurstOutcome) -> None:
    stream = RawStream(channel, "deferred_cpu")
    await stream.send(make_config(data_type=tensor_pb2.DATA_TYPE_UINT8))
    await stream.read_until("ready")
    reading = asyncio.create_task(_read_all(stream))
    await stream.send(*(make_item(item_id, encoded(image)) for item_id in range(1, IMAGES_PER_STREAM + 1)))
    await stream.half_close()
    await reading
    outcome.codes[await stream.finish(half_close=False)] += 1
    for result in stream.outcomes.values():
        outcome.ends[result.reason or "completed"] += 1
        if result.reason == "OVERLOADED" and not (result.error is not None and result.error.HasField("retry_after")):
            outcome.overloaded_without_hint_count += 1
    stream.events.clear()
    stream.trace.events.clear()


async def _read_all(stream: RawStream) -> None:
    while await stream.read() is not None:
        pass
