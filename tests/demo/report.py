"""What the demo prints."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from monopath import PreprocessingPath
from monopath.cli.output import grid_text
from tests.demo.comparison import Outcome, Run

__all__ = ["print_outcomes", "print_refusal"]

_WHO = {
    PreprocessingPath.LOCAL: "finished by the client, converted by the server",
    PreprocessingPath.DEFERRED_CUDA: "finished by the server's GPU",
    PreprocessingPath.DEFERRED_CPU: "finished by the server's CPU",
}


def print_outcomes(console: Console, run: Run, outcomes: list[Outcome]) -> None:
    """Print one stream's table, and each error below it."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("image", overflow="ellipsis")
    for name in ("size", "resized", "grid", "tokens", "ms"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("sha256", no_wrap=True)
    table.add_column("reference", no_wrap=True)
    for outcome in outcomes:
        table.add_row(outcome.picture.name, *_cells(outcome))
    _print_title(console, run)
    console.print(table)
    for outcome in outcomes:
        if outcome.error is not None:
            manner = "as it must" if outcome.picture.damaged else "and must not"
            console.print(f"{outcome.picture.name} fails, {manner}: {outcome.error.reason}: {outcome.error.message}")


def print_refusal(console: Console, run: Run, text: str) -> None:
    """Print that the server refused a stream."""
    _print_title(console, run)
    console.print(text)


def _print_title(console: Console, run: Run) -> None:
    console.print(f"\n[bold]{run.path}[/bold]  {run.preset}  {run.data_type}   [dim]{_WHO[run.path]}[/dim]")


def _cells(outcome: Outcome) -> list[str]:
    plan = outcome.plan
    if plan is None or outcome.timings is None:
        return ["", "", "", "", "", "", "[yellow]failed[/yellow]" if outcome.as_it_must else "[red]FAILED[/red]"]
    milliseconds = (outcome.timings.decoding_seconds + outcome.timings.transforming_seconds) * 1e3
    return [
        f"{plan.original_size.width_px}x{plan.original_size.height_px}",
        f"{plan.resized_size.width_px}x{plan.resized_size.height_px}",
        grid_text(plan),
        str(plan.token_count),
        f"{milliseconds:.0f}",
        outcome.sha256[:8],
        "[green]equal[/green]" if outcome.equals_reference else "[red]DIFFERS[/red]",
    ]
