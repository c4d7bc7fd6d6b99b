"""The command `monopath`: its parts, and how each ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from monopath.cli.bench import bench
from monopath.cli.capabilities import capabilities
from monopath.cli.configuration.options import GroupedCommand
from monopath.cli.doctor import doctor
from monopath.cli.faults import UserFault
from monopath.cli.output import error_console, out_console
from monopath.cli.plan import plan
from monopath.cli.preprocess import preprocess
from monopath.cli.preview import preview
from monopath.cli.serve import serve
from monopath.cli.verify import verify
from monopath_server import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="monopath",
    no_args_is_help=True,
    add_completion=False,
    # Faults of users are printed by `main`; a traceback is for faults of ours, and then it is whole.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 at least one image failed or differs, or a server could not start; 2 wrong "
    "arguments, files or config; 3 no server answers, or it was lost; 130 Ctrl-C.",
)
app.command(name="serve", cls=GroupedCommand, short_help="Run a server.")(serve)
app.command(short_help="What this host can do for a server, and what to change.")(doctor)
app.command(short_help="Turn image files into features.")(preprocess)
app.command(short_help="Grids, token counts and encoder ranks from sizes alone.")(plan)
app.command(short_help="Draw what the model sees of image files.")(preview)
app.command(short_help="What a server can do.")(capabilities)
app.command(short_help="Hold every byte of every path against a reference.")(verify)
app.command(short_help="Measure speed beside what it is held against.")(bench)


def _write_version(wanted: bool) -> None:
    if wanted:
        out_console().print(f"monopath {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_write_version, is_eager=True, help="Write the version and end.")
    ] = False,
) -> None:
    """Images in, vision-language model features out: the same bytes on every preprocessing path."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (`sys.argv` where no arguments are given). Raises SystemExit, always."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="monopath")
    except UserFault as fault:
        error_console().print(fault.text, style="red")
        sys.exit(fault.exit_code)


if __name__ == "__main__":
    main()
