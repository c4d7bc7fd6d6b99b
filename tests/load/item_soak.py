"""Many small items over many streams, with cancellations, bad images and streams that are given up; each is checked."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from monopath.v1 import event_pb2, image_pb2, service_pb2, tensor_pb2
from monopath_server.engine.budget import Load
from tests.support.footprint import Footprint, settle
from tests.support.server import quick_settings
from tests.support.stream import RawStream, Rig, encoded, make_config, make_item, photo, png, raw_pixels, running_rig

__all__ = ["MAX_RSS_GROWTH", "SoakOutcome", "soak_items"]

MAX_RSS_GROWTH = 0.05
"""Part of the memory by which it may have grown in the end."""
WARM_UP_PART = 0.3
MAX_STREAM_ITEMS = 80
GIVEN_UP = "given up with its stream"
"""End of an item whose client cancelled the whole stream before the item ended."""


@dataclass
class SoakOutcome:
    """What became of all items, and what was held before and after."""

    sent_count: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """Items by their end: a reason, `completed`, or that the client gave them up with their stream."""
    stream_count: int = 0
    given_up_stream_count: int = 0
    losses: list[str] = field(default_factory=list)
    """What was lost, repeated or wrong."""
    before: Footprint | None = None
    after: Footprint | None = None

    def leaks(self, max_rss_growth: float = MAX_RSS_GROWTH) -> list[str]:
        """What stayed behind."""
        before, after = self.before, self.after
        if before is None or after is None:
            return ["Expected two measurements, got fewer"]
        found = [
            f"Expected at most {getattr(before, name)} as {name}, got {getattr(after, name)}"
            for name in ("thread_count", "task_count", "descriptor_count")
            if getattr(after, name) > getattr(before, name)
        ]
        if after.stream_count or after.held_bytes or after.unfinished != Load():
            found.append(f"Expected an idle server, got {after}")
        if after.rss_bytes > before.rss_bytes * (1 + max_rss_growth):
            most = f"{before.rss_bytes} bytes of memory and at most {max_rss_growth:.0%} more"
            found.append(f"Expected {most}, got {after.rss_bytes}")
        return found


@dataclass(frozen=True, slots=True)
class _Picture:
    """An image, and how its items end where nobody cancels them."""

    source: image_pb2.ImageSource
    end: str


PICTURES = (
    _Picture(encoded(png(photo(50, 40))), "completed"),
    _Picture(encoded(png(photo(64, 30, seed=1))), "completed"),
    _Picture(raw_pixels(photo(30, 30).tobytes(), 30, 30), "completed"),
    _Picture(raw_pixels(photo(80, 20).tobytes(), 80, 20), "completed"),
    _Picture(encoded(png(photo(90, 90))[:400]), "IMAGE_DAMAGED"),
    _Picture(encoded(b"no image"), "IMAGE_UNSUPPORTED"),
    _Picture(raw_pixels(b"\0" * 26, 3, 3), "PIXELS_SIZE_MISMATCH"),
)
DATA_TYPES = tuple(number for number in tensor_pb2.DataType.values() if number)


async def soak_items(item_count: int, stream_count: int, seed: int) -> SoakOutcome:
    """Send `item_count` items over `stream_count` streams at a time to a server in this process.

    Some go ahead, so that what a warm process keeps for good, in its pools and in the holes of its heap, counts as
    there before. It takes about 6,000 items until that has come to rest.
    """
    outcome = SoakOutcome()
    async with running_rig(quick_settings()) as rig:
        features = await _features_of_all_pictures(rig)
        await _wave(rig, SoakOutcome(), features, int(item_count * WARM_UP_PART), stream_count, seed + 1)
        outcome.before = await settle(rig.server)
        await _wave(rig, outcome, features, item_count, stream_count, seed)
        outcome.after = await settle(rig.server, before=outcome.before)
    if outcome.sent_count != outcome.ends.total():
        outcome.losses.append(f"Expected an end of each of {outcome.sent_count} items, got {outcome.ends.total()}")
    return outcome


async def _features_of_all_pictures(rig: Rig) -> dict[tuple[int, int], str]:
    """SHA-256 of the features by element type and picture, each made alone."""
    found: dict[tuple[int, int], str] = {}
    for data_type in DATA_TYPES:
        requests = [make_item(index, picture.source) for index, picture in enumerate(PICTURES, 1)]
        stream = await rig.run(requests, make_config(data_type=data_type))
        for index in range(len(PICTURES)):
            found[data_type, index] = stream.outcomes[index + 1].sha256
    return found


async def _wave(
    rig: Rig,
    outcome: SoakOutcome,
    features: dict[tuple[int, int], str],
    item_count: int,
    stream_count: int,
    seed: int,
) -> None:
    shares = [item_count // stream_count + (index < item_count % stream_count) for index in range(stream_count)]
    async with asyncio.TaskGroup() as group:
        for index, share in enumerate(shares):
            group.create_task(_lane(rig, outcome, features, share, random.Random(f"{seed}/{index}")))


async def _lane(
    rig: Rig, outcome: SoakOutcome, features: dict[tuple[int, int], str], item_count: int, chance: random.Random
) -> None:
    """One stream after the other, until the lane's share of items was sent."""
    while item_count > 0:
        item_count -= await _one_stream(
            rig, outcome, features, min(item_count, chance.randint(1, MAX_STREAM_ITEMS)), chance
        )


async def _one_stream(
    rig: Rig, outcome: SoakOutcome, features: dict[tuple[int, int], str], item_count: int, chance: random.Random
) -> int:
    """Run a stream of at most so many items, and return how many were sent."""
    data_type = chance.choice(DATA_TYPES)
    stream = await rig.open(make_config(data_type=data_type, as_sent=chance.random() < 0.5))
    gives_up_after = chance.randrange(item_count) if chance.random() < 0.1 else None
    reader = asyncio.create_task(_read_all(stream))
    pictures: dict[int, int] = {}
    cancelled: set[int] = set()
    for position in range(item_count):
        item_id = position * 2 + 1
        pictures[item_id] = chance.randrange(len(PICTURES))
        outcome.sent_count += 1
        await stream.send(make_item(item_id, PICTURES[pictures[item_id]].source, label=f"item {item_id}"))
        if chance.random() < 0.15:
            dropped = chance.choice(list(pictures))
            cancelled.add(dropped)
            await stream.send(service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=dropped)))
        if position == gives_up_after:
            await _give_up(stream, reader, outcome, pictures)
            return len(pictures)
    await stream.half_close()
    await reader
    outcome.stream_count += 1
    try:
        code = await stream.finish(half_close=False)
    except AssertionError as broken_rules:
        outcome.losses.append(str(broken_rules))
        code = "OK"
    if code != "OK":
        outcome.losses.append(f"Expected the status OK, got {code}")
    for item_id, picture in pictures.items():
        _judge(outcome, stream, item_id, PICTURES[picture], features[data_type, picture], item_id in cancelled)
    return len(pictures)


def _judge(
    outcome: SoakOutcome, stream: RawStream, item_id: int, picture: _Picture, sha256: str, was_cancelled: bool
) -> None:
    found = stream.outcomes.get(item_id)
    ends = stream.ended_ids.count(item_id)
    if found is None or ends != 1:
        outcome.losses.append(f"Expected one end of item {item_id}, got {ends}")
        return
    end = found.reason or "completed"
    outcome.ends[end] += 1
    if end != picture.end and not (was_cancelled and end == "CANCELLED"):
        outcome.losses.append(f"Expected {picture.end} as the end of item {item_id}, got {end}")
    if end == "completed" and found.sha256 != sha256:
        outcome.losses.append(f"Expected the features of item {item_id} to be as of one alone, got others")


async def _give_up(
    stream: RawStream, reader: asyncio.Task[None], outcome: SoakOutcome, pictures: dict[int, int]
) -> None:
    """The client cancels the stream: nothing more comes, and nothing may stay behind."""
    stream.call.cancel()
    await reader
    outcome.given_up_stream_count += 1
    ended = set(stream.ended_ids)
    if len(ended) != len(stream.ended_ids):
        outcome.losses.append("Expected at most one end of each item of a stream that was given up, got more")
    outcome.ends[GIVEN_UP] += len(pictures) - len(ended)
    for item_id in ended:
        outcome.ends[stream.outcomes[item_id].reason or "completed"] += 1


async def _read_all(stream: RawStream) -> None:
    try:
        while await stream.read() is not None:
            pass
    except asyncio.CancelledError:
        if not stream.call.cancelled():
            raise
