"""The commands of `monopath`, each imported when it is asked for: a server does not wait for what draws pictures."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import typer
import typer.main
from typer.core import TyperGroup

__all__ = ["CommandGroup"]


class _Command(NamedTuple):
    """A function that is called as its module."""

    short_help: str
    has_settings: bool = False
    """Its options are listed under headings."""


_COMMANDS: Final = {
    "serve": _Command("Run a server.", has_settings=True),
    "doctor": _Command("What this host can do for a server, and what to change."),
    "preprocess": _Command("Turn image files into features."),
    "plan": _Command("Grids, token counts and encoder ranks from sizes alone."),
    "preview": _Command("Draw what the model sees of image files."),
    "capabilities": _Command("What a server can do."),
    "verify": _Command("Hold every byte of every path against a reference."),
    "bench": _Command("Measure speed beside what it is held against."),
}


class CommandGroup(TyperGroup):
    """`monopath` itself. It knows the commands' names without importing any."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]  # nothing is ever added to it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # typer's signature
        """Return the names in the order of the help."""
        return list(_COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write what each command is for."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about.short_help) for name, about in _COMMANDS.items()])


class _Commands(Mapping[str, Any]):
    """Typer's own commands by their names, each made when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        about = _COMMANDS[name]
        command_class = None
        if about.has_settings:
            from monopath.cli.configuration.options import GroupedCommand

            command_class = GroupedCommand
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        function = getattr(importlib.import_module(f"monopath.cli.{name}"), name)
        alone.command(name, cls=command_class, short_help=about.short_help)(function)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)
