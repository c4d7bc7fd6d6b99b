"""The table of a run, and below it what is behind its numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.conformance.suite import ClientReport, State
from tests.contract.vector_cases import GROUPS

__all__ = ["WIDTH", "print_report"]

WIDTH = 160
"""Columns: the table is the same in a terminal and in a log."""


def print_report(console: Console, reports: Sequence[ClientReport], *, require_all: bool) -> None:
    """Print the table, missing clients, skipped vectors with their reasons, and failures; the counts come last."""
    with console.capture() as drawn:
        console.print(_table(reports))
    for line in drawn.get().splitlines():
        _print(console, line.rstrip())
    for report in reports:
        if report.missing:
            _print(console, f"{report.name}: {'missing' if require_all else 'skipped'}: {report.missing}")
    for report in reports:
        _print_skipped(console, report)
    for report in reports:
        _print_failed(console, report)
    ran = [report.name for report in reports if report.example is not None]
    if ran:
        _print(console, f"Examples of READMEs that were run as printed: {', '.join(ran)}")
    counts = [sum(report.count(state) for report in reports) for state in State]
    faults = sum(bool(report.fault) or (require_all and bool(report.missing)) for report in reports)
    passed = counts[0] + sum(report.example == "" for report in reports)
    failed = counts[1] + faults + sum(bool(report.example) for report in reports)
    skipped = counts[2]
    _print(console, f"conformance: {passed} passed, {failed} failed, {skipped} skipped")


def _table(reports: Sequence[ClientReport]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title="passed/failed/skipped", title_justify="left")
    table.add_column("client", no_wrap=True)
    for group in GROUPS:
        table.add_column(group, justify="right")
    table.add_column("all", justify="right")
    for report in reports:
        if report.missing:
            table.add_row(report.name, *("-" for _ in GROUPS), "-")
        else:
            table.add_row(report.name, *(_cell(report, group) for group in GROUPS), _cell(report, None))
    return table


def _cell(report: ClientReport, group: str | None) -> str:
    return "/".join(str(report.count(state, group)) for state in State)


def _print_skipped(console: Console, report: ClientReport) -> None:
    names: dict[str, list[str]] = defaultdict(list)
    for vector in report.vectors:
        if vector.state is State.SKIPPED:
            names[vector.texts[0]].append(vector.name)
    for why, skipped in sorted(names.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        _print(console, f"{report.name}: skipped {len(skipped)}: {why}: {', '.join(skipped)}")


def _print_failed(console: Console, report: ClientReport) -> None:
    for vector in report.vectors:
        if vector.state is State.FAILED:
            _print(console, f"{report.name}: FAILED {vector.name}:")
            for text in vector.texts:
                _print(console, f"    {text}")
    if report.example:
        _print(console, f"{report.name}: FAILED: the example in its README: {report.example}")
    if report.fault:
        _print(console, f"{report.name}: FAILED: {report.fault}")


def _print(console: Console, line: str) -> None:
    # As it is: a text in brackets is no markup, and a log has no width.
    console.print(line, markup=False, highlight=False, soft_wrap=True)
