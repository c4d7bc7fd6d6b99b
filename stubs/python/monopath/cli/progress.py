"""How far a command is, on a terminal that shows nothing else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

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
    # It takes a tenth of a second, which only who sees a bar is to wait for.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    words = TextColumn("{task.description}")
    columns = (words, BarColumn(), MofNCompleteColumn()) if count > 1 else (SpinnerColumn(), words)
    # Stdout stays as it is: redirected, what is piped from it would land on the terminal.
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(description, total=count)
        yield lambda: bar.advance(task)


@contextlib.contextmanager
def waiting(description: str) -> Iterator[None]:
    """Say on a terminal what is waited for."""
    with progress(description, 1):
        yield
