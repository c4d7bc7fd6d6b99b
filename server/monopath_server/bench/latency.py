"""One image at a time: how long until its plan, and until its features, through a server and without one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from monopath import Client, MonopathError, PlanEvent
from monopath_server.bench import bars
from monopath_server.bench.pictures import Picture, picture
from monopath_server.bench.pipeline import Pipeline
from monopath_server.bench.processes import Servers
from monopath_server.bench.progress import Meter
from monopath_server.bench.rounds import Action, run_rounds
from monopath_server.bench.scope import Scope
from monopath_server.bench.sheet import Reading, Sheet
from monopath_server.processors.types import Size

__all__ = ["WAYS", "planned_latency_seconds", "run_latency"]

WAYS = ("inline", "shared_memory", "tcp")
"""Inline and shared memory over a unix socket; inline over TCP on this host."""
_WARM_COUNT = 5
_QUICK_SIZES = (Size(256, 256), Size(1024, 1024))


def planned_latency_seconds(scope: Scope) -> float:
    """How long the section is planned to take, its servers' start included."""
    return scope.pace.latency_seconds * len(_sizes(scope)) + 5.0


def run_latency(scope: Scope, sheet: Sheet, meter: Meter, servers: Servers) -> None:
    """Measure each size on one stream of each way. The features are there, and not yet read, when the clock stops.

    Raises RuntimeError where a server does not start, MonopathError where one is lost.
    """
    meter.begin("starting servers", 5.0)
    pipeline = Pipeline(scope.served_preset, scope.element_type)
    with contextlib.ExitStack() as stack:
        streams: dict[str, Any] = {}
        for way in WAYS:
            server = servers.over_tcp if way == "tcp" else servers.over_unix
            client = stack.enter_context(Client(server.address))
            try:
                streams[way] = stack.enter_context(
                    client.deferred_cpu(
                        preset=scope.served_preset,
                        data_type=scope.data_type,
                        transport="shared_memory" if way == "shared_memory" else "inline",
                        bypass_cache=True,
                    )
                )
            except MonopathError as error:
                sheet.skip(f"latency.{way}", str(error))
        for size in _sizes(scope):
            image = picture(size)
            meter.begin(f"one at a time, {image.name}", scope.pace.latency_seconds)
            actions: list[Action] = [partial(_in_process, pipeline, image)]
            actions += [partial(_through, stream, way, image) for way, stream in streams.items()]
            for _ in range(_WARM_COUNT):
                for action in actions:
                    list(action())
            for way in streams:
                sheet.subtract(
                    f"served.added_p50.{image.name}{_suffix(way)}",
                    f"latency.{way}.features.{image.name}",
                    f"latency.in_process.features.{image.name}",
                    bars.ADDED_LATENCY_MS if size == _QUICK_SIZES[0] else None,
                )
            run_rounds(
                actions,
                sheet,
                meter,
                min_rounds=scope.pace.min_rounds,
                max_rounds=scope.pace.max_latency_rounds,
                seconds=scope.pace.latency_seconds,
            )


def latencies_ms(sheet: Sheet) -> dict[str, float]:
    """The flat map of the report: p50 and p99 of plan and of features for each size and way, and what a server adds."""
    found: dict[str, float] = {}
    for name, figure in sheet.figures.items():
        section, way, *rest = name.split(".", 3)
        if section != "latency" or len(rest) != 2:
            continue
        event, size = rest
        where = "in_process" if way == "in_process" else "served"
        found[f"{where}.{event}_p50.{size}{_suffix(way)}"] = figure.median
        found[f"{where}.{event}_p99.{size}{_suffix(way)}"] = figure.p99
    found.update({difference.name: difference.value for difference in sheet.differences})
    return found


def _suffix(way: str) -> str:
    """Inline over a unix socket is what a key means that says nothing else."""
    return "" if way in ("inline", "in_process") else f".{way}"


def _sizes(scope: Scope) -> tuple[Size, ...]:
    if not scope.pace.is_quick:
        return scope.sizes
    return tuple(size for size in scope.sizes if size in _QUICK_SIZES) or scope.sizes[:1]


def _in_process(pipeline: Pipeline, image: Picture) -> Iterator[Reading]:
    started = time.perf_counter()
    rows = pipeline.whole(image.data)
    spent_ms = 1e3 * (time.perf_counter() - started)
    rows.release()
    yield Reading(f"latency.in_process.features.{image.name}", "ms", spent_ms)


def _through(stream: Any, way: str, image: Picture) -> Iterator[Reading]:
    started = time.perf_counter()
    stream.send(image.data)
    for event in stream.events():
        spent_ms = 1e3 * (time.perf_counter() - started)
        if isinstance(event, PlanEvent):
            yield Reading(f"latency.{way}.plan.{image.name}", "ms", spent_ms)
        else:
            event.raise_for_error()
            event.release()
            yield Reading(f"latency.{way}.features.{image.name}", "ms", spent_ms)
