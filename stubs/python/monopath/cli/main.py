"""The command `monopath`: its parts, and how each ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from monopath.cli.commands import CommandGroup
from monopath.cli.faults import UserFault
from monopath.cli.output import error_console, out_console
from monopath_server import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="monopath",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    # Faults of users are printed by `main`; a traceback is for faults of ours, and then it is whole.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 at least one image failed or differs, or a server could not start; 2 wrong "
    "arguments, files or config; 3 no server answers, or it was lost; 130 Ctrl-C.",
)


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
