"""What `monopath serve` makes of the arguments and the environment that a shipped file starts it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import typer.main

from monopath.cli.configuration.places import ExistingFile, Folder, NewFile
from monopath.cli.configuration.resolve import CONFIG_VARIABLE, resolve
from monopath.cli.configuration.table import SETTINGS
from monopath.cli.main import app
from monopath_server.run import BACKSTOP_SECONDS

__all__ = ["parse_serve", "stopping_seconds"]


def parse_serve(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the values of all settings, read and checked as a start would, without starting anything.

    Raises what the command line raises for an option that it has not, and ValueError for values that cannot be.
    """
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]  # it is a group
    variables = {CONFIG_VARIABLE, *(setting.variable for setting in SETTINGS)}
    assert set(environment or {}) <= variables, "Expected variables of `monopath serve`"
    given = command.make_context("serve", list(arguments)).params
    with pytest.MonkeyPatch.context() as patch:
        # Their folders and files are on other machines.
        for kind in (ExistingFile, Folder, NewFile):
            patch.setattr(kind, "_checked", lambda _kind, path: path)
        resolution = resolve(given, environment or {}, given["config"])
    if resolution.faults:
        raise ValueError("\n".join(resolution.faults))
    return {name: found.value for name, found in resolution.found.items()}


def stopping_seconds(values: Mapping[str, Any]) -> float:
    """Return after how long a server with these values has ended at the latest, however stuck it is."""
    return float(values["lame_duck"] + values["grace"] + BACKSTOP_SECONDS)
