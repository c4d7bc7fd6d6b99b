"""What `monopath serve` makes of the arguments and the environment that a shipped file starts it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import typer.main

from monopath.cli.main import app
from monopath_server.run import BACKSTOP_SECONDS

__all__ = ["parse_serve", "stopping_seconds"]

PENDING = ("--insecure", "--metrics-address")
"""Options that the shipped files name already, and that come with security and telemetry. Empty once they are there."""


def parse_serve(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the values of all options, converted and checked as a start would, without starting anything.

    Raises what the command line raises for an option that it has not, or a value that cannot be.
    """
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]  # it is a group
    known = {name for parameter in command.params for name in parameter.opts}
    variables = {parameter.envvar for parameter in command.params}
    assert set(environment or {}) <= variables, "Expected variables of `monopath serve`"
    pending = [name for name in PENDING if name not in known]
    kept = [argument for argument in arguments if argument.partition("=")[0] not in pending]
    with pytest.MonkeyPatch.context() as patch:
        for name in variables:
            patch.delenv(name, raising=False)
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        values: dict[str, Any] = command.make_context("serve", kept).params
    return values


def stopping_seconds(values: Mapping[str, Any]) -> float:
    """Return after how long a server with these values has ended at the latest, however stuck it is."""
    return float(values["lame_duck"] + values["grace"] + BACKSTOP_SECONDS)
