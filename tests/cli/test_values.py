"""Texts of the command line, and how values are written."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from monopath.cli.output import FileName, bytes_text, milliseconds_text, new_table
from monopath_server import __version__
from tests.cli.conftest import Monopath
from tests.support.processes import Finished


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (64 << 20, "64 MiB")]
)
def test_bytes_are_written_in_the_unit_that_fits(size_bytes: int, text: str) -> None:
    assert bytes_text(size_bytes) == text


def test_times_are_written_with_the_digits_that_matter() -> None:
    assert [milliseconds_text(value) for value in (None, 0.84, 12.4, 1204.2)] == ["", "0.8", "12", "1204"]


def test_a_narrow_table_keeps_numbers_whole_and_the_ends_of_names() -> None:
    table = new_table("image", "size", name_column="image")
    table.add_row(FileName("/very/long/path/to/[bold]a[/bold].png"), "1920x1080")
    console = Console(width=30, file=io.StringIO(), force_terminal=False)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    row = console.file.getvalue().splitlines()[-1]
    assert len(row) <= 30
    assert row.split() == ["\u2026[bold]a[/bold].png", "1920x1080"]


def test_the_version_is_written_on_a_line(monopath: Monopath) -> None:
    assert monopath("--version") == Finished(0, f"monopath {__version__}\n", "")


def test_an_unknown_command_or_option_is_one_clear_line_behind_the_usage(monopath: Monopath) -> None:
    for arguments in (["prepare"], ["plan", "--rank", "2", "1x1"]):
        done = monopath(*arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1].startswith("Error: No such ")
