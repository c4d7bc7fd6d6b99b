"""The examples' page holds: its commands parse, its links lead somewhere, and what it names exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.core
import typer.main

from examples.encoder.__main__ import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "stubs" / "python" / "examples" / "README.md"
TEXT = PAGE.read_text("utf-8")
COMMANDS = re.findall(r"^python -m examples\.encoder (.*?)(?: &)?$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_printed_command_parses(line: str) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    name, *arguments = shlex.split(line)
    context = group.commands[name].make_context(name, arguments)
    assert context.params["preprocessing" if name != "encode" else "address"]


def test_every_command_is_printed() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert {line.split()[0] for line in COMMANDS} == set(group.commands)


def test_links_and_modules_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (PAGE.parent / target).exists(), target
    for name in re.findall(r"`((?:encoder/)?\w+\.py)`", TEXT):
        assert (PAGE.parent / "encoder" / Path(name).name).exists(), name
