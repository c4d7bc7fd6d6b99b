"""The commands of `monopath` as a whole."""

from __future__ import annotations

import subprocess
import sys

from monopath.cli.commands import CommandGroup
from tests.cli.conftest import Monopath
from tests.support.processes import REPOSITORY

HELP_AND_MODULES = """
import contextlib, io, sys
from monopath.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main(sys.argv[1:])
print(*sys.modules)
"""


def imported(*arguments: str) -> set[str]:
    """Names of the modules of commands that a process imported for these arguments."""
    done = subprocess.run(
        [sys.executable, "-c", HELP_AND_MODULES, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=REPOSITORY,
    )
    names = {f"monopath.cli.{name}": name for name in CommandGroup().commands}
    return {names[module] for module in done.stdout.split() if module in names}


def test_a_command_does_not_wait_for_the_others() -> None:
    assert imported("plan", "--help") == {"plan"}
    assert imported("--help") == set()


def test_a_misspelt_command_is_told_with_the_one_that_may_be_meant(monopath: Monopath) -> None:
    done = monopath("serv")
    assert done.exit_code == 2
    assert "No such command 'serv'. Did you mean 'serve'?" in done.stderr


def test_each_command_is_listed_with_what_it_is_for(monopath: Monopath) -> None:
    listed = monopath("--help").stdout.partition("Commands:\n")[2].splitlines()
    for line, (name, command) in zip(listed, CommandGroup().commands.items(), strict=False):
        assert line.split() == [name, *(command.short_help or "").split()]
