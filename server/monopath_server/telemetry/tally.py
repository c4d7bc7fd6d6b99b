"""Counts of what happens, as plain numbers: written on the event loop, read by whoever asks (`collector`).

Every series exists from the start, under names of the contract's enums: whatever clients send, there is never another
one. No locks and no library: counting an item has to take a few microseconds.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence

from monopath.v1 import event_pb2
from monopath_server.delivery.parts import TransportKind
from monopath_server.faults import ItemReason, StreamReason
from monopath_server.observer import Ended, ItemFacts, Observer, StreamFacts
from monopath_server.serving.paths import DEFERRED_CPU, DEFERRED_CUDA, LOCAL

__all__ = ["PATHS", "STAGES", "Histogram", "Tally"]

PATHS = (LOCAL.name, DEFERRED_CUDA.name, DEFERRED_CPU.name)
STAGES = ("planning", "queued", "decoding", "transforming", "delivering", "whole")
_STREAM_OUTCOMES = [ending.name for ending in (*Ended, *StreamReason)]
_ITEM_OUTCOMES = [ending.name for ending in (*Ended, *ItemReason)]
_GOAWAY_REASONS = [
    value.name.removeprefix("GOAWAY_REASON_")
    for value in event_pb2.GoawayReason.DESCRIPTOR.values
    if value.number != event_pb2.GOAWAY_REASON_UNSPECIFIED
]
_MICROSECOND_NS = 1000
_STAGE_BOUNDS_NS = [
    bound * _MICROSECOND_NS
    for bound in (
        *(100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000),
        *(250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000),
    )
]
_BATCH_BOUNDS = [1, 2, 4, 8, 16, 32, 64]


class Histogram:
    """How many values lay up to each bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of each bound alone, and of what is above all of them."""
        self.total = 0

    def observe(self, value: int) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Tally(Observer):
    """Counts. Keys are the labels."""

    watches_items = True

    def __init__(self) -> None:
        self.streams = dict.fromkeys(itertools.product(PATHS, _STREAM_OUTCOMES), 0)
        self.items = dict.fromkeys(itertools.product(PATHS, _ITEM_OUTCOMES), 0)
        self.stages_ns = {path: [Histogram(_STAGE_BOUNDS_NS) for _ in STAGES] for path in PATHS}
        self.received_bytes = dict.fromkeys(TransportKind, 0)
        self.sent_bytes = dict.fromkeys(TransportKind, 0)
        self.fallbacks = dict.fromkeys([TransportKind.SHARED_MEMORY, TransportKind.CUDA_IPC], 0)
        self.goaways = dict.fromkeys(_GOAWAY_REASONS, 0)
        self.batches = Histogram(_BATCH_BOUNDS)

    def stream_ended(self, stream: StreamFacts, /) -> None:
        self.streams[stream.path, stream.ending.name] += 1

    def goaway_sent(self, _stream: StreamFacts, reason: str, /) -> None:
        self.goaways[reason] += 1

    def batch_formed(self, item_count: int, /) -> None:
        self.batches.observe(item_count)

    def item_ended(self, stream: StreamFacts, item: ItemFacts, /) -> None:
        self.items[stream.path, item.ending.name] += 1
        self.received_bytes[item.received_by] += item.received_bytes
        if item.sent_by is not None:
            self.sent_bytes[item.sent_by] += item.sent_bytes
            if item.sent_by is not stream.transport:
                self.fallbacks[stream.transport] += 1
        times = item.timings
        if times is not None and item.ending is Ended.COMPLETED:
            planning, queued, decoding, transforming, delivering, whole = self.stages_ns[stream.path]
            # A stage that the item did not pass is not one that was quick.
            if times.planning_ns:
                planning.observe(times.planning_ns)
            if times.queued_ns:
                queued.observe(times.queued_ns)
            if times.decoding_ns:
                decoding.observe(times.decoding_ns)
            if times.transforming_ns:
                transforming.observe(times.transforming_ns)
            delivering.observe(item.ended_ns - item.made_ns)
            whole.observe(item.ended_ns - item.accepted_ns)
