"""A server's metrics, as Prometheus reads them: what was counted, and what is there at the moment somebody asks."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

import monopath_server
from monopath_server.serving.capabilities import CONTRACT_VERSION
from monopath_server.telemetry.server_parts import ServerParts
from monopath_server.telemetry.tally import PATHS, STAGES, Histogram, Tally

__all__ = ["ServerCollector"]

_NANOSECONDS = 1_000_000_000
_Values: TypeAlias = float | Mapping[Any, float]
"""One number, or numbers by the label, or by the labels, that they have."""


class ServerCollector(Collector):
    """Reads a server. Runs in the thread of whoever asks, so it reads only what every thread may read."""

    def __init__(self, tally: Tally, server: ServerParts) -> None:
        self._tally = tally
        self._parts = server

    def collect(self) -> Iterator[Metric]:
        """Everything at this moment."""
        yield from self._server()
        yield from self._events()
        yield from self._load()
        yield from self._cache()
        yield from self._memory()

    def _server(self) -> Iterator[Metric]:
        build = {
            "version": monopath_server.__version__,
            "contract_version": CONTRACT_VERSION,
            "python_version": platform.python_version(),
        }
        yield _gauge("monopath_build_info", "Always 1; the labels say what runs.", {tuple(build.values()): 1}, *build)
        yield _gauge(
            "monopath_ready", "1 while new streams are welcome, as /readyz says it.", self._parts.health.is_ready
        )
        yield _gauge("monopath_draining", "1 once the server was asked to stop.", self._parts.is_stopping())

    def _events(self) -> Iterator[Metric]:
        tally = self._tally
        refused_count = self._parts.listener.refused_count
        yield _counter("monopath_refused_calls", "Calls without a token that the server knows.", refused_count)
        yield _counter("monopath_streams", "Streams that are over, or were refused.", tally.streams, "path", "outcome")
        yield _counter("monopath_items", "Items that are over.", tally.items, "path", "outcome")
        seconds = HistogramMetricFamily(
            "monopath_item_seconds", "Seconds that completed items spent in a stage.", labels=["path", "stage"]
        )
        for path, histograms in tally.stages_ns.items():
            for stage, histogram in zip(STAGES, histograms, strict=True):
                _add(seconds, [path, stage], histogram, _NANOSECONDS)
        yield seconds
        directions = {"received": tally.received_bytes, "sent": tally.sent_bytes}
        yield _counter(
            "monopath_moved_bytes",
            "Bytes of images and features of items that are over, by how they travelled.",
            {(kind, name): count for name, counts in directions.items() for kind, count in counts.items()},
            "transport",
            "direction",
        )
        yield _counter(
            "monopath_fallbacks",
            "Items that travelled in messages though their client asked for this transport.",
            tally.fallbacks,
            "transport",
        )
        yield _counter("monopath_goaways", "Streams that were asked to move.", tally.goaways, "reason")
        batches = HistogramMetricFamily("monopath_batch_items", "Images that a GPU took up together.")
        _add(batches, [], tally.batches, 1)
        yield batches

    def _load(self) -> Iterator[Metric]:
        streams = self._parts.servicer.open_streams
        yield _gauge(
            "monopath_streams_open", "Streams that are not over.", {path: streams[path] for path in PATHS}, "path"
        )
        unfinished = self._parts.servicer.unfinished
        yield _gauge("monopath_items_in_flight", "Items without an end.", unfinished.items)
        waiting_count = self._parts.engines.waiting_count
        yield _gauge("monopath_items_waiting", "Items in flight that wait for a worker or a GPU.", waiting_count)
        yield _gauge("monopath_in_flight_bytes", "Bytes of the images and features in flight.", unfinished.bytes)
        yield _gauge("monopath_in_flight_pixels", "Pixels of the images in flight.", unfinished.pixels)

    def _cache(self) -> Iterator[Metric]:
        cache = self._parts.engines.cache
        lookups = {
            "HIT": 0 if cache is None else cache.hit_count,
            "MISS": 0 if cache is None else cache.miss_count,
            "JOINED": 0 if cache is None else cache.joined_count,
        }
        yield _counter("monopath_cache_lookups", "Items that asked the cache.", lookups, "outcome")
        stored_bytes, entry_count = (0, 0) if cache is None else (cache.stored_bytes, cache.entry_count)
        yield _gauge("monopath_cache_bytes", "Memory of the features that are kept.", stored_bytes)
        yield _gauge("monopath_cache_entries", "Images whose features are kept.", entry_count)

    def _memory(self) -> Iterator[Metric]:
        engines = self._parts.engines
        yield _gauge("monopath_leases_open", "Features that clients have by a handle.", engines.lease_count)
        yield _gauge("monopath_leased_bytes", "Bytes of these features.", engines.leased_bytes)
        timeout_count = engines.lease_timeout_count
        yield _counter("monopath_lease_timeouts", "Leases that ran out without a release.", timeout_count)
        buffers = {"held": engines.buffers.held_bytes, "idle": engines.buffers.idle_bytes}
        yield _gauge("monopath_buffer_bytes", "Pooled memory.", buffers, "state")
        pool = None if engines.shared_memory is None else engines.shared_memory.pool
        shared = {
            "held": 0 if pool is None else pool.held_bytes,
            "idle": 0 if pool is None else pool.idle_bytes,
            "retired": 0 if pool is None else pool.retired_bytes,
        }
        yield _gauge("monopath_shared_memory_bytes", "Shared memory for features.", shared, "state")
        on_devices = {
            (device, state): size_bytes
            for device, memory in engines.device_memory_pools.items()
            for state, size_bytes in (
                ("held", memory.held_bytes),
                ("idle", memory.idle_bytes),
                ("retired", memory.retired_bytes),
            )
        }
        yield _gauge(
            "monopath_device_memory_bytes",
            "Memory of a GPU for features that stay there.",
            on_devices,
            "device",
            "state",
        )


def _gauge(name: str, text: str, values: _Values, *labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in _by_labels(values):
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: _Values, *labels: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in _by_labels(values):
        family.add_metric(key, value)
    return family


def _by_labels(values: _Values) -> Iterator[tuple[tuple[str, ...], float]]:
    if not isinstance(values, Mapping):
        yield (), values
        return
    for key, value in values.items():
        yield key if isinstance(key, tuple) else (key,), value


def _add(family: HistogramMetricFamily, labels: Sequence[str], histogram: Histogram, units: int) -> None:
    """Add a histogram whose numbers are `units` to Prometheus's one. Its counts are summed up from bound to bound."""
    bounds = [*(str(bound / units) for bound in histogram.bounds), "+Inf"]
    counts = itertools.accumulate(histogram.counts)
    family.add_metric(labels, list(zip(bounds, counts, strict=True)), histogram.total / units)
