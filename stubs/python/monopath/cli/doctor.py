"""`monopath doctor`: what this host can do, and what to change."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monopath.cli.configuration.resolve import Resolution, misspelt_variables, resolve
from monopath.cli.configuration.setting import DEFAULTS
from monopath.cli.faults import ExitCode, UserFault
from monopath.cli.listening import check_address
from monopath.cli.output import out_console, write_json_line
from monopath.cli.serve_checks import WrongSettings, check_settings
from monopath_server.diagnosis.checks import diagnose
from monopath_server.diagnosis.finding import Finding, Level

__all__ = ["doctor"]

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}
_SUBJECT_CELLS = 15


def doctor(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The settings that the host is held against, as `monopath serve --config` reads them; those of the "
            "environment count too.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of lines.")] = False,
) -> None:
    """Say what this host can do for a server, and what to change.

    Each line is ok, a warning (a server runs, with less than it could have) or a problem (it does not start). Exit code
    0: no problem; 1: at least one.
    """
    findings = []
    for finding in _findings(resolve({}, os.environ, config)):
        findings.append(finding)
        if not as_json:
            _write(finding)
    counts = Counter(finding.level for finding in findings)
    if as_json:
        write_json_line(
            {
                "findings": [
                    {"subject": it.subject, "level": it.level, "found": it.found, "advice": it.advice or None}
                    for it in findings
                ],
                "warning_count": counts[Level.WARNING],
                "problem_count": counts[Level.PROBLEM],
            }
        )
    else:
        out_console().print(f"warnings: {counts[Level.WARNING]}, problems: {counts[Level.PROBLEM]}")
    if counts[Level.PROBLEM]:
        raise typer.Exit(ExitCode.FAILED)


def _findings(resolution: Resolution) -> Iterator[Finding]:
    settings, addresses = DEFAULTS, []
    try:
        checked = check_settings(resolution, os.environ)
    except WrongSettings as wrong:
        for text in wrong.faults:
            yield Finding("settings", Level.PROBLEM, text, "`monopath serve --help` says what is expected")
    else:
        settings, addresses = checked.settings, checked.addresses
    for text in misspelt_variables(os.environ):
        yield Finding("settings", Level.WARNING, text, "The right name, or none that begins so")
    yield from map(_listening, addresses)
    yield from diagnose(settings, max(1, len(addresses)))


def _listening(address: str) -> Finding:
    try:
        check_address(address, may_be_in_use=True)
    except UserFault as fault:
        return Finding("address", Level.PROBLEM, fault.text, "Another --address")
    try:
        check_address(address)
    except UserFault as fault:
        return Finding("address", Level.WARNING, fault.text, "Stop what listens there, or another --address")
    return Finding("address", Level.OK, f"{address} is free")


def _write(finding: Finding) -> None:
    line = Text(f"{finding.level:<8}", style=_STYLES[finding.level])
    line.append(f" {finding.subject:<{_SUBJECT_CELLS}} {finding.found}", style="default")
    console = out_console()
    console.print(line, soft_wrap=True)
    if finding.advice:
        console.print(f"{'':<{9 + _SUBJECT_CELLS}} {finding.advice}", soft_wrap=True)
