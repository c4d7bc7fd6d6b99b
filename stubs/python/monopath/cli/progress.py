"""How far a command is, on a terminal that shows nothing else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from monopath.cli.output import error_console

__all__ = ["progress", "waiting"]


@contextlib.contextmanager
def progress(description: str, count: int, *, as_json: bool = False) -> Iterator[Callable[[], None]]:
    """Give what is called after each of `count` parts, and show a bar on stderr until the end, if that is a terminal.

    With `as_json` nothing is shown where stdout is a terminal too: lines would be written into the bar.
    """
    console = error_console()
    if not console.is_terminal or (as_json and os.isatty(1)):
        yield lambda: None
        return
    if count == 1:
        with console.status(description):
            yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=count)
        yield lambda: bar.advance(task)


@contextlib.contextmanager
def waiting(description: str) -> Iterator[None]:
    """Say on a terminal what is waited for."""
    console = error_console()
    with console.status(description) if console.is_terminal else contextlib.nullcontext():
        yield
