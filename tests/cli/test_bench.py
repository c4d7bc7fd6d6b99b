"""`monopath bench`: what it measures has its shape and adds up, and it ends cleanly. No time is asserted."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monopath_server.bench import benchmark, cpu, drives, processes
from monopath_server.bench.bars import over_floor
from monopath_server.bench.benchmark import run_benchmark
from monopath_server.bench.checkpoint_order import checkpoint_rows
from monopath_server.bench.pictures import picture
from monopath_server.bench.pipeline import Pipeline, read_bytes
from monopath_server.bench.progress import Meter
from monopath_server.bench.report import report, slope
from monopath_server.bench.rounds import run_rounds
from monopath_server.bench.scope import QUICK, Scope, Section
from monopath_server.bench.sheet import AtLeast, AtMost, Reading, Sheet
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.presets import PRESETS as ALL_PRESETS
from monopath_server.processors.types import ElementType, Size
from tests.cli.conftest import Monopath
from tests.support.processes import starting

ROUND_COUNT = 2
TINY = replace(
    QUICK,
    min_rounds=ROUND_COUNT,
    max_rounds=ROUND_COUNT,
    max_latency_rounds=ROUND_COUNT,
    sample_seconds=1e-6,
    passage_seconds=1e-6,
)
SMALL, WIDE = Size(64, 48), Size(7300, 20)
"""The second one is resized."""


def quiet_meter() -> Meter:
    return Meter(lambda _title, _part: None)


def tiny_scope(*sections: Section, element_type: ElementType = ElementType.BFLOAT16) -> Scope:
    return Scope((SMALL, WIDE), ("kimi-k2.5",), element_type, sections or tuple(Section), TINY)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """A whole run of two small images, as what is read back from the file."""
    scope, sheet = tiny_scope(), Sheet()
    run_benchmark(scope, sheet, quiet_meter())
    made: dict[str, Any] = json.loads(json.dumps(report(scope, sheet, {}, seconds=1.0, stopped_by=None)))
    return made


@pytest.mark.timeout(300)
def test_the_maps_have_what_others_read_from_them(document: dict[str, Any]) -> None:
    assert not document["is_partial"]
    for image in ("64x48", "7300x20"):
        for name in ("whole_over_floor", "whole_over_reference", "two_threads_over_one"):
            assert f"cpu.{name}.{image}.kimi-k2.5" in document["ratios"]
        for what in ("plan_p50", "plan_p99", "features_p50", "features_p99", "added_p50"):
            for way in ("", ".shared_memory", ".tcp"):
                if image == "64x48":
                    assert f"served.{what}.{image}{way}" in document["latency_ms"]
    served = {name for name in document["ratios"] if name.startswith("served.")}
    assert served >= {
        "served.shared_memory_over_in_process.1_stream",
        "served.shared_memory_over_in_process.4_streams",
        "served.shared_memory_over_in_process.16_streams",
        "served.inline_bf16_over_in_process.4_streams",
        "served.inline_bf16_over_echo.4_streams",
        "served.shared_memory_over_echo.4_streams",
        "served.images_per_s_16_over_4_streams",
        "served.tcp_over_unix.4_streams",
    }
    for stage in ("probe", "digest", "decode", "transform", "delivery", "whole", "floor", "reference"):
        assert document["figures"][f"cpu.one_thread.{stage}.64x48.kimi-k2.5"]["count"] == ROUND_COUNT
    for transport in ("inline", "shared_memory"):
        assert document["figures"][f"memory.{transport}.per_image_in_flight.7300x20"]["unit"] == "bytes"


def test_every_value_is_a_number_and_every_figure_has_its_spread(document: dict[str, Any]) -> None:
    for values in (document["ratios"], document["latency_ms"]):
        assert all(isinstance(value, float) and math.isfinite(value) for value in values.values())
    for figure in document["figures"].values():
        assert figure["min"] <= figure["median"] <= figure["max"]
        assert figure["count"] >= 1
        assert figure["unit"]


def test_ratios_are_the_quotients_of_their_medians_and_differences_their_differences(document: dict[str, Any]) -> None:
    figures, comparisons = document["figures"], document["comparisons"]
    assert set(document["ratios"]) | {name for name in document["latency_ms"] if ".added_" in name} == set(comparisons)
    for name, comparison in comparisons.items():
        first, second = figures[comparison["first"]], figures[comparison["second"]]
        assert first["unit"] == second["unit"]
        if name in document["ratios"]:
            assert document["ratios"][name] == comparison["value"] == first["median"] / second["median"]
        else:
            assert document["latency_ms"][name] == comparison["value"] == first["median"] - second["median"]


def test_bars_say_whether_their_own_value_meets_them(document: dict[str, Any]) -> None:
    bars = {bar["name"]: bar for bar in document["bars"]}
    assert "cpu.whole_over_floor.64x48.kimi-k2.5" not in bars  # too small for one
    assert bars["cpu.whole_over_floor.7300x20.kimi-k2.5"]["bar"] == "<= 0.45"
    assert bars["served.inline_bf16_over_in_process.4_streams"]["bar"] == ">= 0.75"
    for bar in bars.values():
        sign, limit = bar["bar"].split()
        assert bar["value"] == document["comparisons"][bar["name"]]["value"]
        is_met = bar["value"] <= float(limit) if sign == "<=" else bar["value"] >= float(limit)
        assert bar["is_met"] is is_met


def test_items_and_memory_of_the_server_grow_along_the_curve(document: dict[str, Any]) -> None:
    curve = document["growth"]["served.resident_bytes_against_items"]
    items = [item_count for item_count, _ in curve]
    assert items == sorted(set(items))
    # Inline and shared memory, on three numbers of streams, in each round.
    assert len(curve) == 6 * ROUND_COUNT
    assert all(resident_bytes > 1 << 20 for _, resident_bytes in curve)


@pytest.mark.parametrize(
    ("size", "preset", "bar"),
    [
        (Size(256, 256), "kimi-k2.5", None),
        (Size(1024, 1024), "kimi-k2.5", AtMost(1.25)),
        (Size(2048, 2048), "kimi-k2.5", AtMost(0.45)),
        (Size(2048, 2048), "kimi-k3", AtMost(1.25)),
        (Size(4000, 3000), "kimi-k2.5", AtMost(0.45)),
    ],
)
def test_the_bar_of_the_floor_is_that_of_images_that_are_resized_or_not(
    size: Size, preset: str, bar: AtMost | None
) -> None:
    assert over_floor(plan_image(PRESETS[preset], size)) == bar


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("size", [SMALL, WIDE])
def test_the_reference_has_the_bytes_of_the_pipeline(preset: str, size: Size) -> None:
    pipeline, image = Pipeline(preset, ElementType.FLOAT32), picture(size)
    expected = checkpoint_rows(image.data, pipeline.probe(image.data).plan, PRESETS[preset])
    with pipeline.whole(image.data) as rows:
        assert rows.array.tobytes() == expected.tobytes()


def test_wrong_bytes_stop_the_run_and_nothing_is_measured(
    monopath: Monopath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, out = checkpoint_rows, tmp_path / "bench.json"

    def sabotaged(*arguments: Any) -> Any:
        rows = real(*arguments)
        rows[3, 1, 5, 9] += 1
        return rows

    monkeypatch.setattr(cpu, "checkpoint_rows", sabotaged)
    done = monopath("bench", "--quick", "--section", "cpu", "--size", "64x48", "--out", out)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].endswith("got 1 other elements")
    document = json.loads(out.read_text())
    assert document["is_partial"]
    assert document["figures"] == document["ratios"] == {}


@pytest.mark.parametrize("element_type", ElementType)
def test_every_element_type_is_measured(element_type: ElementType) -> None:
    sheet = Sheet()
    run_benchmark(tiny_scope(Section.CPU, element_type=element_type), sheet, quiet_meter())
    assert "cpu.one_thread.whole.64x48.kimi-k2.5" in sheet.figures


def test_rounds_take_turns_and_end_when_their_time_is_over() -> None:
    sheet, order = Sheet(), list[str]()

    def action(name: str) -> Iterator[Reading]:
        order.append(name)
        yield Reading(name, "ms", 1.0)

    actions = [lambda: action("a"), lambda: action("b"), lambda: action("c")]
    run_rounds(actions, sheet, quiet_meter(), min_rounds=2, max_rounds=9, seconds=0.0)
    assert "".join(order) == "abcbca"
    assert {figure.values for figure in sheet.figures.values()} == {(1.0, 1.0)}


def test_a_sheet_compares_medians_and_round_by_round() -> None:
    sheet = Sheet()
    for first, second in ((4.0, 2.0), (9.0, 3.0), (8.0, 8.0)):
        sheet.record(Reading("first", "ms", first))
        sheet.record(Reading("second", "ms", second))
    sheet.compare("ratio", "first", "second", AtLeast(2.0))
    sheet.compare("of nothing", "first", "never measured")
    sheet.subtract("difference", "first", "second")
    [ratio], [difference] = sheet.ratios, sheet.differences
    assert (ratio.value, ratio.smallest, ratio.largest) == (8.0 / 3.0, 1.0, 3.0)
    assert ratio.bar is not None
    assert ratio.bar.is_met(ratio.value)
    assert (difference.value, difference.smallest, difference.largest) == (5.0, 0.0, 6.0)
    assert sheet.figures["first"].p99 == 9.0


def test_numbers_are_what_they_are_called() -> None:
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == 2.0
    assert slope([(1.0, 1.0), (1.0, 2.0)]) == 0.0
    data = np.arange(1029, dtype=np.uint16).view(np.uint8)
    words = data[: len(data) // 8 * 8].view(np.uint64)
    assert read_bytes(data) == sum(map(int, words)) % 2**64 + int(data[len(words) * 8 :].sum())


def test_pictures_are_the_same_every_time_and_weigh_what_photographs_do() -> None:
    first = picture(Size(640, 480))
    picture.cache_clear()
    again = picture(Size(640, 480))
    assert first.data == again.data
    assert 0.15 <= len(first.data) / (640 * 480) <= 0.4


def test_the_table_says_bars_and_what_was_left_out(monopath: Monopath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monopath.cli.bench.QUICK", TINY)
    options = ("--quick", "--section", "cpu", "--size", "64x48", "--size", "7300x20", "--preset", "kimi-k2.5")
    done = monopath("bench", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines()[3:])) <= 120
    table = done.stdout.replace("\n", "")
    assert "cpu.whole_over_floor.7300x20.kimi-k2.5" in table
    assert "<=0.45" in table
    assert "not measured: cpu.whole_over_transformers (" in table or "/transf." in table
    written = json.loads(monopath("bench", *options, "--json").stdout)
    assert written["scope"]["sections"] == ["cpu"]
    assert written["machine"]["core_count"] == len(os.sched_getaffinity(0))
    assert 0 <= written["machine"]["others_share"] <= 1


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--size", "large"), "--size: expected a size such as 1920x1080, got large"),
        (("--size", "0x5"), "--size: expected 1 to 67108864 pixels, got 0x5"),
        (("--preset", "other"), f"--preset: expected one of {', '.join(ALL_PRESETS)}, got other"),
        (("--out", "/nowhere/bench.json"), "--out: there is no folder /nowhere"),
    ],
)
def test_wrong_arguments_are_named(monopath: Monopath, options: tuple[str, ...], fault: str) -> None:
    done = monopath("bench", *options)
    assert (done.exit_code, done.stdout, done.stderr.strip()) == (2, "", fault)


def test_an_interrupted_run_writes_what_it_has(
    monopath: Monopath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    monkeypatch.setattr("monopath.cli.bench.QUICK", TINY)

    def interrupted(scope: Scope, sheet: Sheet, meter: Meter) -> None:
        real(scope, sheet, meter)
        raise KeyboardInterrupt

    real = cpu.run_cpu
    monkeypatch.setattr(benchmark, "run_cpu", interrupted)
    done = monopath("bench", "--quick", "--size", "64x48", "--preset", "kimi-k3", "--out", out)
    assert (done.exit_code, done.stderr) == (130, "")
    assert done.stdout.rstrip().endswith("only a part was measured: interrupt")
    document = json.loads(out.read_text())
    assert (document["is_partial"], document["stopped_by"]) == (True, "interrupt")
    assert document["ratios"]["cpu.whole_over_reference.64x48.kimi-k3"] > 0


@pytest.mark.timeout(180)
def test_an_interrupt_while_servers_start_ends_them(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    out, folder = tmp_path / "bench.json", tmp_path_factory.mktemp("b")
    options = ("--section", "served", "--size", "64x48", "--out", out)
    with starting("bench", *options, environment={"TMPDIR": str(folder)}) as process:
        children = wait_for_children(process.pid)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "")
    assert stdout.rstrip().endswith("only a part was measured: interrupt")
    assert json.loads(out.read_text())["is_partial"]
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert list(folder.iterdir()) == []


@pytest.mark.timeout(180)
def test_an_interrupt_while_images_travel_leaves_no_process_and_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before, threads_before = children_of(os.getpid()), set(threading.enumerate())
    interrupted, seen_children = threading.Event(), list[int]()

    def interrupting(array: NDArray[Any]) -> int:
        if threading.current_thread().name.startswith("served") and not interrupted.is_set():
            interrupted.set()
            seen_children.extend(set(children_of(os.getpid())) - set(before))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return read_bytes(array)

    monkeypatch.setattr(drives, "read_bytes", interrupting)
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(tiny_scope(Section.SERVED), Sheet(), quiet_meter())
    assert len(seen_children) == 3  # two servers and the echo
    assert set(children_of(os.getpid())) <= set(before)
    left = [thread.name for thread in set(threading.enumerate()) - threads_before if not thread.daemon]
    assert left == []


def children_of(pid: int) -> list[int]:
    """Processes whose parent this is."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def wait_for_children(pid: int) -> list[int]:
    """Wait, within a bound, until a process has a child."""
    deadline = time.monotonic() + 90
    while not (children := children_of(pid)):
        assert time.monotonic() < deadline, "Expected a child, got none"
        time.sleep(0.01)
    return children


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"Cannot listen at .*there is no folder"),
        processes.server_process(f"unix:{tmp_path / 'missing' / 'socket'}"),
    ):
        pass
