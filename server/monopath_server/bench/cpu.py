"""The stages and the whole of a worker's work, beside the floor, the checkpoint's order and the library's processor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from monopath_server.bench import bars
from monopath_server.bench.checkpoint_order import checkpoint_rows
from monopath_server.bench.floor import decode_and_resize
from monopath_server.bench.library import LibraryMissing, library_processor
from monopath_server.bench.machine import Bystanders
from monopath_server.bench.pictures import Picture, picture
from monopath_server.bench.pipeline import Pipeline
from monopath_server.bench.progress import Meter
from monopath_server.bench.rounds import Action, Sampler, run_rounds
from monopath_server.bench.scope import Scope
from monopath_server.bench.sheet import AtMost, Reading, Sheet
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import ElementType
from monopath_server.transforms.tables import float32_to_bits

__all__ = ["RIVALS", "STAGES", "planned_cpu_seconds", "run_cpu"]

STAGES = ("probe", "digest", "decode", "transform", "delivery")
"""What a worker does one after the other; the delivery is what an inline stream does with the rows after it."""
RIVALS = ("floor", "reference", "transformers")


def planned_cpu_seconds(scope: Scope) -> float:
    """How long the section is planned to take."""
    return scope.pace.cell_seconds * len(scope.sizes) * len(scope.presets)


def run_cpu(scope: Scope, sheet: Sheet, meter: Meter) -> None:
    """Measure every size under every preset.

    Raises:
        RuntimeError: the pipeline's bytes are not the checkpoint's, so that their times say nothing.
    """
    if scope.core_count < 2:
        sheet.skip("cpu.two_threads_over_one", "one core only")
    with ThreadPoolExecutor(max(2, scope.core_count), thread_name_prefix="bench") as pool:
        for preset in scope.presets:
            pipeline = Pipeline(preset, scope.element_type)
            for size in scope.sizes:
                image = picture(size)
                meter.begin(f"{preset}, {image.name}", scope.pace.cell_seconds)
                _run_cell(pipeline, image, preset, scope, sheet, meter, pool)


def _run_cell(
    pipeline: Pipeline,
    image: Picture,
    preset: str,
    scope: Scope,
    sheet: Sheet,
    meter: Meter,
    pool: ThreadPoolExecutor,
) -> None:
    check_bytes(pipeline, image)
    pace = scope.pace
    cell = f"{image.name}.{preset}"
    planned = pipeline.probe(image.data)
    digested = pipeline.digest(planned)
    decoded = pipeline.decode(digested)
    rows = pipeline.transform(digested, decoded)
    works: dict[str, Callable[[], object]] = {
        "probe": partial(pipeline.probe, image.data),
        "digest": partial(pipeline.digest, planned),
        "decode": lambda: pipeline.decode(digested).release(),
        "transform": lambda: pipeline.transform(digested, decoded).release(),
        "delivery": partial(pipeline.deliver, rows),
        "whole": partial(pipeline.run, image.data),
        "floor": partial(decode_and_resize, image.data, planned.plan),
    }
    config = pipeline.config
    if isinstance(config, KimiConfig):
        works["reference"] = partial(checkpoint_rows, image.data, planned.plan, config)
        try:
            works["transformers"] = partial(library_processor(config), image.data)
        except LibraryMissing as error:
            sheet.skip("cpu.whole_over_transformers", str(error))
    else:
        sheet.skip("cpu.whole_over_reference", "written for Kimi's processors only")
    samplers = {name: Sampler(work, pace.sample_seconds) for name, work in works.items()}
    actions: list[Action] = [partial(_one_thread, name, cell, sampler) for name, sampler in samplers.items()]
    if scope.core_count >= 2:
        actions.append(partial(_many_threads, "two_threads", "whole", cell, samplers["whole"], pool, 2))
    crowded = [name for name in ("whole", *RIVALS) if name in samplers]
    if scope.core_count > 2 or not pace.is_quick:
        actions.extend(
            partial(_many_threads, "all_cores", name, cell, samplers[name], pool, scope.core_count) for name in crowded
        )
    _compare(sheet, cell, over_floor=bars.over_floor(planned.plan))
    bystanders = Bystanders()
    try:
        run_rounds(
            actions,
            sheet,
            meter,
            min_rounds=pace.min_rounds,
            max_rounds=pace.max_rounds,
            seconds=pace.cell_seconds,
        )
    finally:
        rows.release()
        decoded.release()
        if (others := bystanders.shares().get("others_share")) is not None:
            sheet.record(Reading(f"cpu.others_share.{cell}", "of all cores", others))


def check_bytes(pipeline: Pipeline, image: Picture) -> None:
    """Hold the pipeline's rows against the checkpoint's order. Raises RuntimeError where they differ."""
    if pipeline.element_type is ElementType.UINT8 or not isinstance(pipeline.config, KimiConfig):
        return  # pixel values before normalisation, which the checkpoint's processor does not return; or another's
    planned = pipeline.probe(image.data)
    expected = float32_to_bits(checkpoint_rows(image.data, planned.plan, pipeline.config), pipeline.element_type)
    with pipeline.whole(image.data) as rows:
        differing = int(np.count_nonzero(rows.array.view(expected.dtype) != expected.reshape(-1)))
    if differing:
        raise RuntimeError(f"Expected the checkpoint's own bytes of {image.name}, got {differing} other elements")


def _one_thread(name: str, cell: str, sampler: Sampler) -> list[Reading]:
    spent = sampler.in_one_thread()
    return [
        Reading(f"cpu.one_thread.{name}.{cell}", "ms", spent.wall_ms),
        Reading(f"cpu.one_thread_cpu_time.{name}.{cell}", "ms", spent.cpu_ms),
    ]


def _many_threads(
    where: str, name: str, cell: str, sampler: Sampler, pool: ThreadPoolExecutor, thread_count: int
) -> list[Reading]:
    return [Reading(f"cpu.{where}.{name}.{cell}", "ms", sampler.in_threads_ms(pool, thread_count))]


def _compare(sheet: Sheet, cell: str, *, over_floor: AtMost | None) -> None:
    for rival in RIVALS:
        bar = {"floor": over_floor, "reference": bars.OVER_REFERENCE}.get(rival)
        sheet.compare(
            f"cpu.whole_over_{rival}.{cell}", f"cpu.one_thread.whole.{cell}", f"cpu.one_thread.{rival}.{cell}", bar
        )
        # Says the same on a machine that is busy with other things.
        sheet.compare(
            f"cpu.whole_over_{rival}_in_cpu_time.{cell}",
            f"cpu.one_thread_cpu_time.whole.{cell}",
            f"cpu.one_thread_cpu_time.{rival}.{cell}",
        )
        sheet.compare(
            f"cpu.all_cores_whole_over_{rival}.{cell}", f"cpu.all_cores.whole.{cell}", f"cpu.all_cores.{rival}.{cell}"
        )
    sheet.compare(
        f"cpu.two_threads_over_one.{cell}",
        f"cpu.one_thread.whole.{cell}",
        f"cpu.two_threads.whole.{cell}",
        bars.TWO_THREADS_OVER_ONE,
    )
