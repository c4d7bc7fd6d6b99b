"""Writes what `monopath bench` measured as tables, from the same document as the JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from monopath.cli.output import bytes_text, milliseconds_text, new_table, out_console, printable

__all__ = ["write_tables"]

_STAGES = ("probe", "digest", "decode", "transform", "delivery", "whole")
_RIVALS = ("floor", "reference", "transformers")

_QUIET_SHARE = 0.05

Document = Mapping[str, Any]


def write_tables(document: Document) -> None:
    """Write everything that was measured; a partial run says so at the end."""
    _write_machine(document)
    _write_cpu_times(document)
    _write_cpu_ratios(document)
    _write_served(document)
    _write_latencies(document)
    _write_memory(document)
    _write_bars(document)
    console = out_console()
    if document["machine"].get("others_share", 0.0) > _QUIET_SHARE:
        text = "other processes had too much of the cores: only ratios in_cpu_time are worth something"
        console.print(printable(text, "red"), soft_wrap=True)
    for skipped in document["skipped"]:
        console.print(printable(f"not measured: {skipped['what']} ({skipped['reason']})"), soft_wrap=True)
    if document["is_partial"]:
        text = f"only a part was measured: {document['stopped_by']}"
        console.print(printable(text, "red"), soft_wrap=True)


def _write_machine(document: Document) -> None:
    machine, scope = document["machine"], document["scope"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    load = " ".join(f"{value:.2f}" for value in machine["load_average_at_start"])
    flags = " ".join(machine["processor_flags"])
    console = out_console()
    console.print(f"{machine['processor']} ({flags}), {machine['core_count']} cores, load {load}", soft_wrap=True)
    console.print(f"{versions}, libjpeg-turbo {machine['libjpeg_turbo']}", soft_wrap=True)
    others = "".join(
        f"; {100 * machine[key]:.0f} % of the cores' time went to {whom}"
        for key, whom in (("others_share", "other processes"), ("stolen_share", "other machines of the host"))
        if key in machine
    )
    line = f"features in {scope['element_type']}; medians; {document['seconds']:.0f} s{others}\n"
    console.print(line, soft_wrap=True)


def _write_cpu_times(document: Document) -> None:
    """One thread, milliseconds an image."""
    rows = []
    for preset in document["scope"]["presets"]:
        for image in _image_names(document):
            medians = [_median(document, f"cpu.one_thread.{name}.{image}.{preset}") for name in (*_STAGES, *_RIVALS)]
            if any(median is not None for median in medians):
                rows.append([f"{preset} {image}", *(_precise(median) for median in medians)])
    title = "One thread, ms an image (wire: as inline messages; ref.: the checkpoint's order; HF: transformers)"
    _write_table(title, ["image", "probe", "hash", "decode", "rows", "wire", "whole", "floor", "ref.", "HF"], rows)


def _write_cpu_ratios(document: Document) -> None:
    """The whole by what it is held against; two threads by one."""
    rows = []
    for preset in document["scope"]["presets"]:
        for image in _image_names(document):
            cell = f"{image}.{preset}"
            names = [f"cpu.whole_over_{rival}.{cell}" for rival in _RIVALS]
            names += [f"cpu.all_cores_whole_over_{rival}.{cell}" for rival in _RIVALS]
            names.append(f"cpu.two_threads_over_one.{cell}")
            if any(name in document["ratios"] for name in names):
                others = _median(document, f"cpu.others_share.{cell}")
                share = "" if others is None else f"{100 * others:.0f} %"
                rows.append([f"{preset} {image}", *(_ratio(document, name) for name in names), share])
    title = "Whole by its rivals, one thread and all cores (n:); two threads by one; cores that others had meanwhile"
    _write_table(title, ["image", "/floor", "/ref.", "/HF", "n:/floor", "n:/ref.", "n:/HF", "2:1", "others"], rows)


def _write_served(document: Document) -> None:
    """Speed, and what it costs: processor time of both sides, and times with all their waiting."""
    figures = document["figures"]
    speeds, costs = [], []
    for name, figure in figures.items():
        if not (name.startswith("served.") and name.endswith(".images_per_s")):
            continue
        way = name.removeprefix("served.").removesuffix(".images_per_s")
        spread = f"{figure['min']:.1f}-{figure['max']:.1f}"
        image = next((f".{name}" for name in _image_names(document) if way.endswith(f".{name}")), "")
        part = _median(document, f"served.in_process{image}.images_per_s")
        ratio = "" if part is None else f"{figure['median'] / part:.2f}"
        rate = _whole(_median(document, f"served.{way}.mb_per_s"))
        speeds.append([way, f"{figure['median']:.1f}", spread, rate, ratio])
        medians = [
            _median(document, f"served.{way}.{cost}") for cost in ("server_cpu", "client_cpu", "plan", "features")
        ]
        tail = figures.get(f"served.{way}.features", {}).get("p99")
        costs.append([way, *map(_precise, medians), milliseconds_text(tail)])
    columns = ["way", "images/s", "min-max", "MB/s", "/in process"]
    _write_table("Through a server, every byte read", columns, speeds)
    columns = ["way", "server cpu", "own cpu", "plan", "features", "p99"]
    _write_table(
        "The same, ms an image: processor time, and times from an image's turn, with all waiting", columns, costs
    )


def _write_latencies(document: Document) -> None:
    rows = []
    latencies: Mapping[str, float] = document["latency_ms"]
    for image in _image_names(document):
        for way, suffix in (("inline", ""), ("shared memory", ".shared_memory"), ("inline, TCP", ".tcp")):
            names = [
                f"served.{what}.{image}{suffix}"
                for what in ("plan_p50", "plan_p99", "features_p50", "features_p99", "added_p50")
            ]
            if any(name in latencies for name in names):
                cells = [*(latencies.get(name) for name in names), latencies.get(f"in_process.features_p50.{image}")]
                rows.append([image, way, *map(_precise, cells)])
    columns = ["image", "way", "plan", "p99", "features", "p99", "added", "in process"]
    _write_table("One image at a time, ms (p50 and p99)", columns, rows)


def _write_memory(document: Document) -> None:
    console = out_console()
    for name, figure in document["figures"].items():
        if name.startswith("memory.") and figure["unit"] == "bytes":
            console.print(f"{name}: {bytes_text(round(figure['median']))}", soft_wrap=True)
    for name, value in document["growth"].items():
        if isinstance(value, float):
            console.print(f"{name}: {value:.3g}", soft_wrap=True)
    console.print()


def _write_bars(document: Document) -> None:
    rows: list[list[str | Text]] = []
    for bar in document["bars"]:
        comparison = document["comparisons"][bar["name"]]
        verdict = printable("ok", "green") if bar["is_met"] else printable("short", "red")
        spread = f"{comparison['min']:.2g}-{comparison['max']:.2g}"
        rows.append([bar["name"], f"{bar['value']:.2f}", spread, bar["bar"].replace(" ", ""), verdict])
    _write_table("Bars", ["what", "is", "rounds", "bar", ""], rows)


def _write_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Write a table without its empty columns, and nothing where there is no row."""
    if not rows:
        return
    kept = [index for index in range(len(columns)) if any(str(row[index]) for row in rows)]
    headings = [columns[index] for index in kept]
    # The first column gives way where the terminal is narrow.
    table = new_table(*headings, name_column=headings[0], left=("way",))
    for row in rows:
        first, *others = (row[index] for index in kept)
        table.add_row(Text(str(first), overflow="fold"), *others)
    console = out_console()
    console.print(title, style="bold", soft_wrap=True)
    console.print(table)
    console.print()


def _image_names(document: Document) -> list[str]:
    return [image["name"] for image in document["scope"]["images"]]


def _median(document: Document, name: str) -> float | None:
    figure = document["figures"].get(name)
    return None if figure is None else float(figure["median"])


def _ratio(document: Document, name: str) -> Text | str:
    value = document["ratios"].get(name)
    if value is None:
        return ""
    met = {bar["name"]: bar["is_met"] for bar in document["bars"]}.get(name)
    return printable(f"{value:.2f}", {True: "green", False: "red", None: ""}[met])


def _precise(milliseconds: float | None) -> str:
    """Three digits: 0.034, 0.25, 4.12, 118."""
    if milliseconds is None:
        return ""
    return (
        f"{milliseconds:.3f}" if milliseconds < 0.1 else f"{milliseconds:.{max(0, 3 - len(str(int(milliseconds))))}f}"
    )


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
