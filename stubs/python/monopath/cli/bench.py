"""`monopath bench`: how fast the pipeline and the server are, beside what they are held against."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monopath import DataType, MonopathError
from monopath.cli.faults import ExitCode, UserFault, needs_server
from monopath.cli.output import error_console, write_json_line
from monopath_server.bench.scope import FULL, QUICK, Scope, Section

if TYPE_CHECKING:
    from monopath_server.processors.types import Size

__all__ = ["bench"]

_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})", re.ASCII)
_MAX_PIXELS = 1 << 26
"""What a server takes by default."""
_INTERRUPTED = 130
"""128 and the number of SIGINT, as a shell has it."""


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rounds and streams, in about a minute instead of six.")
    ] = False,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="WxH",
            help="Size of a measured image. May be given many times.",
            show_default="256x256, 1024x1024, 1920x1080, 2048x2048, 4000x3000",
        ),
    ] = None,
    presets: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="A config. May be given many times; the first one is measured through a server.",
            show_default="kimi-k2.5 and kimi-k3",
        ),
    ] = None,
    dtype: Annotated[DataType, typer.Option(help="Element type of the features.")] = DataType.BFLOAT16,
    sections: Annotated[
        list[Section] | None,
        typer.Option(
            "--section",
            help="Measure a part only: the stages on the CPU, images a second through a server, one image at a "
            "time, or what an image takes of a server's memory. May be given many times.",
            show_default="all",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most so many rounds of everything.", show_default="as time allows"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures as JSON.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the JSON to stdout instead of a table.")] = False,
) -> None:
    """Measure the pipeline and a server side by side with what they are held against, and with the project's bars.

    Everything is made here: the images, a server in a process of its own, and what it is compared with. What is
    compared takes turns, so that a busy machine hits all of it; still, measure on an idle one. No time makes the
    command fail. On Ctrl-C what was measured until then is written, and marked as a part.

    Exit code 0: measured; 1: the bytes are wrong, or a server could not start; 2: wrong arguments; 130: interrupted.
    """
    try:
        from monopath_server.bench.benchmark import run_benchmark
        from monopath_server.bench.machine import Bystanders, machine_facts
        from monopath_server.bench.progress import Meter
        from monopath_server.bench.report import report
        from monopath_server.bench.sheet import Sheet
    except ModuleNotFoundError as error:
        raise needs_server("`monopath bench`", error) from None
    scope = _scope(sizes, presets, dtype, sections, rounds, quick=quick)
    if out is not None and not out.absolute().parent.is_dir():
        raise UserFault(f"--out: there is no folder {out.absolute().parent}")
    machine, bystanders, sheet = machine_facts(), Bystanders(), Sheet()
    started_seconds = time.perf_counter()
    stopped_by: str | None = None
    fault: UserFault | None = None
    try:
        with _progress() as show:
            run_benchmark(scope, sheet, Meter(show))
    except KeyboardInterrupt:
        stopped_by = "interrupt"
    except (RuntimeError, MonopathError) as error:
        stopped_by = str(error)
        fault = UserFault(f"The benchmark ended early: {error}", ExitCode.FAILED)
    machine.update(bystanders.shares())
    document = report(scope, sheet, machine, seconds=time.perf_counter() - started_seconds, stopped_by=stopped_by)
    _write(document, out, as_json=as_json)
    if fault is not None:
        raise fault
    if stopped_by is not None:
        raise typer.Exit(_INTERRUPTED)


def _scope(
    sizes: list[str] | None,
    presets: list[str] | None,
    dtype: DataType,
    sections: list[Section] | None,
    rounds: int | None,
    *,
    quick: bool,
) -> Scope:
    """Return what is to be measured. Raises UserFault for words that mean nothing."""
    from monopath_server.bench.pictures import BENCH_SIZES
    from monopath_server.processors.kimi.presets import PRESETS as KIMI_PRESETS
    from monopath_server.processors.presets import PRESETS
    from monopath_server.processors.types import ElementType

    for preset in presets or ():
        if preset not in PRESETS:
            raise UserFault(f"--preset: expected one of {', '.join(PRESETS)}, got {preset}")
    pace = QUICK if quick else FULL
    if rounds is not None:
        pace = replace(
            pace,
            min_rounds=min(pace.min_rounds, rounds),
            max_rounds=min(pace.max_rounds, rounds),
            max_latency_rounds=min(pace.max_latency_rounds, rounds),
        )
    return Scope(
        sizes=tuple(dict.fromkeys(map(_size, sizes))) if sizes else BENCH_SIZES,
        # The two that the bars are for; all families together take half an hour.
        presets=tuple(dict.fromkeys(presets)) if presets else tuple(KIMI_PRESETS),
        element_type=ElementType(dtype.value),
        sections=tuple(section for section in Section if not sections or section in sections),
        pace=pace,
    )


def _size(text: str) -> Size:
    from monopath_server.processors.types import Size

    match = _SIZE.fullmatch(text)
    if match is None:
        raise UserFault(f"--size: expected a size such as 1920x1080, got {text}")
    size = Size(int(match[1]), int(match[2]))
    if not 1 <= size.width_px * size.height_px <= _MAX_PIXELS:
        raise UserFault(f"--size: expected 1 to {_MAX_PIXELS} pixels, got {text}")
    return size


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """Give what is told how far the run is: a bar on a terminal, else nothing."""
    console = error_console()
    if not console.is_terminal:
        yield lambda _title, _part: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<32}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("Measuring", total=1.0)
        yield lambda title, part: progress.update(task, description=title, completed=part)


def _write(document: Mapping[str, object], out: Path | None, *, as_json: bool) -> None:
    from monopath.cli.bench_output import write_tables

    if out is not None:
        try:
            out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", "utf-8")
        except OSError as error:
            raise UserFault(f"--out: cannot write {out}: {error.strerror}") from None
    if as_json:
        write_json_line(document)
    else:
        write_tables(document)
