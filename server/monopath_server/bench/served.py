"""Images a second through a server, beside the same pipeline called in this process and a bare gRPC echo."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from monopath import MonopathError
from monopath_server.bench import bars
from monopath_server.bench.drives import Drive, InProcess, Passage, Served
from monopath_server.bench.echo import Echo
from monopath_server.bench.pictures import picture
from monopath_server.bench.pipeline import Pipeline
from monopath_server.bench.processes import Child, Servers, cpu_seconds, echo_process, resident_bytes
from monopath_server.bench.progress import Meter
from monopath_server.bench.rounds import Action, run_rounds
from monopath_server.bench.scope import Scope, type_name
from monopath_server.bench.sheet import AtLeast, Reading, Sheet

__all__ = ["in_flight", "planned_served_seconds", "run_served"]

DriveT = TypeVar("DriveT", bound=Drive)

_FEW_STREAMS, _SOME_STREAMS, _MANY_STREAMS = 1, 4, 16
_LEAST_IMAGES = 2 * _MANY_STREAMS
"""Of a passage: every stream must have something to do."""
_LEAST_IN_FLIGHT = 8


def in_flight(stream_count: int) -> int:
    """Images that each of so many streams carries at a time: two, and more where there are few streams."""
    return max(2, _LEAST_IN_FLIGHT // stream_count)


def planned_served_seconds(scope: Scope) -> float:
    """How long the section is planned to take, its servers' start included."""
    sizes_alone = 0 if scope.pace.is_quick else len(scope.sizes)
    return (1 + 0.1 * sizes_alone) * scope.pace.served_seconds + 8.0


def run_served(scope: Scope, sheet: Sheet, meter: Meter, servers: Servers) -> None:
    """Measure the mix of all sizes on every number of streams; in a full run also each size on four streams.

    Raises RuntimeError where a server does not start, MonopathError where one is lost.
    """
    meter.begin("starting servers", 8.0)
    images = [picture(size).data for size in scope.sizes]
    pipeline = Pipeline(scope.served_preset, scope.element_type)
    feature_bytes = {image: pipeline.probe(image).feature_bytes for image in images}
    with contextlib.ExitStack() as stack:
        server, over_tcp = servers.over_unix, servers.over_tcp
        echo = stack.enter_context(echo_process(f"unix:{servers.folder / 'echo'}"))

        def kept(drive: DriveT) -> DriveT:
            stack.callback(drive.close)
            return drive

        in_process = kept(InProcess(pipeline, scope.core_count))
        drives: dict[str, tuple[Drive, Child | None]] = {"in_process": (in_process, None)}
        for count in (_FEW_STREAMS, _SOME_STREAMS, _MANY_STREAMS):
            if count in (_SOME_STREAMS,) or not scope.pace.is_quick:
                bare = Echo(echo.address, feature_bytes, count, items_in_flight=in_flight(count))
                drives[f"echo.{_streams(count)}"] = (kept(bare), echo)
        inline = f"inline_{type_name(scope.element_type)}"
        shared_served: list[Served] = []
        for count in scope.stream_counts:
            drives[f"{inline}.{_streams(count)}"] = (kept(_served(scope, server, "inline", count)), server)
            try:
                shared = kept(_served(scope, server, "shared_memory", count))
            except MonopathError as error:
                sheet.skip("served.shared_memory", str(error))
            else:
                shared_served.append(shared)
                drives[f"shared_memory.{_streams(count)}"] = (shared, server)
        tcp = kept(_served(scope, over_tcp, "inline", _SOME_STREAMS))
        drives[f"tcp_{inline}.{_streams(_SOME_STREAMS)}"] = (tcp, over_tcp)
        _compare(sheet, scope, inline, mix="")

        mixed = _passage_images(in_process, images, scope.pace.passage_seconds)
        for drive, _ in drives.values():
            drive.run(mixed)  # pools, mappings and connections exist from then on
        curve = sheet.curves.setdefault("served.resident_bytes_against_items", [])
        actions: list[Action] = [partial(_pass, name, *pair, mixed, curve) for name, pair in drives.items()]
        meter.begin("through a server", scope.pace.served_seconds)
        _run(actions, scope, sheet, meter, scope.pace.served_seconds)
        if not scope.pace.is_quick:
            for size in scope.sizes:
                image = picture(size)
                meter.begin(f"through a server, {image.name}", 0.1 * scope.pace.served_seconds)
                _compare(sheet, scope, inline, mix=f".{image.name}")
                several = _passage_images(in_process, [image.data], scope.pace.passage_seconds / 2)
                wanted = ["in_process", f"{inline}.4_streams", "shared_memory.4_streams", "echo.4_streams"]
                actions = [
                    partial(_pass, f"{name}.{image.name}", *drives[name], several, curve)
                    for name in wanted
                    if name in drives
                ]
                _run(actions, scope, sheet, meter, 0.1 * scope.pace.served_seconds)
        for served in shared_served:
            sheet.record(Reading("served.shared_memory.fallback_count", "items", served.fallback_count()))


def _run(actions: Sequence[Action], scope: Scope, sheet: Sheet, meter: Meter, seconds: float) -> None:
    pace = scope.pace
    run_rounds(actions, sheet, meter, min_rounds=pace.min_rounds, max_rounds=pace.max_rounds, seconds=seconds)


def _served(scope: Scope, server: Child, transport: str, stream_count: int) -> Served:
    return Served(
        server.address,
        scope.served_preset,
        scope.data_type,
        "shared_memory" if transport == "shared_memory" else "inline",
        stream_count,
        items_in_flight=in_flight(stream_count),
    )


def _passage_images(in_process: InProcess, images: Sequence[bytes], seconds: float) -> list[bytes]:
    """Repeat the images so often that a passage takes about so long in this process, and no stream is idle."""
    in_process.run(images)
    once = in_process.run(images)
    cycles = math.ceil(max(seconds / max(once.seconds, 1e-6), _LEAST_IMAGES / len(images)))
    return list(images) * cycles


def _pass(
    name: str, drive: Drive, child: Child | None, images: Sequence[bytes], curve: list[tuple[float, float]]
) -> Iterator[Reading]:
    """One passage: its speed, its latencies, and the processor time of both sides for each image."""
    before_seconds = 0.0 if child is None else cpu_seconds(child.pid)
    own_seconds = time.process_time()
    passage = drive.run(images)
    own_seconds = time.process_time() - own_seconds
    yield Reading(f"served.{name}.images_per_s", "images/s", passage.images_per_second)
    yield Reading(f"served.{name}.mb_per_s", "MB/s", passage.megabytes_per_second)
    yield Reading(f"served.{name}.client_cpu", "ms/image", 1e3 * own_seconds / len(images))
    server_seconds = 0.0 if child is None else cpu_seconds(child.pid) - before_seconds
    yield Reading(f"served.{name}.all_cpu", "ms/image", 1e3 * (own_seconds + server_seconds) / len(images))
    if child is not None:
        yield Reading(f"served.{name}.server_cpu", "ms/image", 1e3 * server_seconds / len(images))
        if not name.startswith(("echo", "tcp")):
            made = curve[-1][0] if curve else 0.0
            curve.append((made + len(images), float(resident_bytes(child.pid))))
    yield from _latencies(name, passage)


def _latencies(name: str, passage: Passage) -> Iterator[Reading]:
    for value in passage.plan_ms:
        yield Reading(f"served.{name}.plan", "ms", value)
    for value in passage.features_ms:
        yield Reading(f"served.{name}.features", "ms", value)


def _compare(sheet: Sheet, scope: Scope, inline: str, *, mix: str) -> None:
    """Ask for the ratios of the mix (""), or of one size (".1024")."""
    ways: dict[str, Callable[[int], AtLeast | None]] = {
        "shared_memory": lambda count: bars.SHARED_MEMORY_OVER_IN_PROCESS if count == _SOME_STREAMS else None,
        inline: lambda count: bars.INLINE_OVER_IN_PROCESS if count == _SOME_STREAMS else None,
    }

    def rate(name: str) -> str:
        return f"served.{name}{mix}.images_per_s"

    for way, bar_of in ways.items():
        for count in scope.stream_counts if not mix else (_SOME_STREAMS,):
            name, bar = f"{way}.{_streams(count)}", None if mix else bar_of(count)
            sheet.compare(f"served.{way}_over_in_process.{_streams(count)}{mix}", rate(name), rate("in_process"), bar)
            # What the ratio is where all cores are busy; says the same on a machine that others use too.
            sheet.compare(
                f"served.{way}_over_in_process_in_cpu_time.{_streams(count)}{mix}",
                f"served.in_process{mix}.all_cpu",
                f"served.{name}{mix}.all_cpu",
            )
            sheet.compare(f"served.{way}_over_echo.{_streams(count)}{mix}", rate(name), rate(f"echo.{_streams(count)}"))
    if mix:
        return
    some, many = _streams(_SOME_STREAMS), _streams(_MANY_STREAMS)
    best = "shared_memory" if os.access("/dev/shm", os.W_OK) else inline  # noqa: S108 - where POSIX shared memory is
    for key, way in (("served.images_per_s_16_over_4_streams", best), (f"served.{inline}_16_over_4_streams", inline)):
        sheet.compare(key, rate(f"{way}.{many}"), rate(f"{way}.{some}"), bars.SIXTEEN_OVER_FOUR_STREAMS)
    sheet.compare(f"served.tcp_over_unix.{some}", rate(f"tcp_{inline}.{some}"), rate(f"{inline}.{some}"))


def _streams(count: int) -> str:
    return f"{count}_streams" if count != 1 else "1_stream"
