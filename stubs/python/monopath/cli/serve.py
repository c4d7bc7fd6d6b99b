"""`monopath serve`: run a server in the foreground."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from monopath.cli.configuration.build import to_toml
from monopath.cli.configuration.options import with_settings
from monopath.cli.configuration.resolve import CONFIG_VARIABLE, Resolution, misspelt_variables, resolve
from monopath.cli.configuration.server_rows import LogLevel
from monopath.cli.configuration.setting import Group
from monopath.cli.faults import ExitCode, UserFault, needs_server
from monopath.cli.listening import check_address
from monopath.cli.output import error_console
from monopath.cli.serve_checks import Checked, WrongSettings, check_settings
from monopath.cli.serve_many import run_processes
from monopath.cli.serve_ready import ReadyAnnouncer
from monopath_server.security.settings import SecurityError
from monopath_server.settings import Settings
from monopath_server.supervision.lifeline import follow_supervisor
from monopath_server.telemetry.logs import LogFormat, configure_logging

__all__ = ["serve"]


def _serve(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='A TOML file with settings: max_streams = 64, max_image_bytes = "16MiB". Options prevail over the '
            f"environment, the environment over the file.  [env var: {CONFIG_VARIABLE}; default: none]",
            show_default=False,
            rich_help_panel=Group.CONFIGURATION,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check everything, presets and files included, write the settings that hold as a file with where "
            "each is from, and end.",
            rich_help_panel=Group.CONFIGURATION,
        ),
    ] = False,
    **given: object,
) -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Writes one line with its address when it is ready. On a signal it finishes what it accepted and ends with exit code
    0; a second signal ends it at once. Exit code 1: it cannot listen at the address; 2: a wrong option, config or
    preset file, or it would be open to others than it is meant for.
    """
    follow_supervisor(os.environ)
    resolution = resolve(given, os.environ, config)
    _start_logging(resolution)
    checked = check_settings(resolution, os.environ)
    if check:
        _write_check(checked)
        return
    for note in misspelt_variables(os.environ):
        logging.getLogger(__name__).warning("%s", note)
    for address in checked.listening_addresses:
        check_address(address)
    with ReadyAnnouncer(resolution["ready_file"]) as announcer:
        if checked.plans:
            run_processes(resolution, checked.plans, announcer)
        else:
            _run(checked.settings, announcer)


serve = with_settings(_serve)


def _start_logging(resolution: Resolution) -> None:
    level = resolution["log_level"] if "log_level" in resolution.found else LogLevel.WARNING
    log_format = resolution["log_format"] if "log_format" in resolution.found else LogFormat.TEXT
    configure_logging(level, log_format)


def _write_check(checked: Checked) -> None:
    faults: list[str] = []
    for address in checked.listening_addresses:
        try:
            check_address(address, may_be_in_use=True)
        except UserFault as fault:
            faults.append(fault.text)
    if faults:
        raise WrongSettings(faults)
    for note in misspelt_variables(os.environ):
        error_console().print(note)
    for line in to_toml(checked.resolution.found.values()):
        sys.stdout.write(f"{line}\n")


def _run(settings: Settings, announcer: ReadyAnnouncer) -> None:
    try:
        from monopath_server import event_loop
        from monopath_server.app import AddressError
        from monopath_server.run import run_server
    except ModuleNotFoundError as error:
        raise needs_server("`monopath serve`", error) from None
    try:
        event_loop.run(run_server(settings, announcer.announce))
    except SecurityError as error:
        raise UserFault(str(error)) from None
    except AddressError as error:
        raise UserFault(str(error), ExitCode.FAILED) from None
    except RuntimeError as error:
        raise UserFault(f"This installation cannot serve: {error}", ExitCode.FAILED) from None
