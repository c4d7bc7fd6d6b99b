"""How every command writes: tables and JSON lines on stdout, progress and faults on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from monopath import ImagePlan

__all__ = [
    "FileName",
    "bytes_text",
    "error_console",
    "grid_text",
    "milliseconds_text",
    "new_table",
    "out_console",
    "printable",
    "size_text",
    "write_json_line",
]

_KIBIBYTE = 1024
_SHORT_DIGEST_DIGITS = 12
_SHORTEST_NAME_CELLS = 10


def out_console() -> Console:
    """Return a console for results."""
    return Console(highlight=False, emoji=False, markup=False)


def error_console() -> Console:
    """Return a console for everything that is no result. Long lines are not wrapped: they are read by programs too."""
    return Console(stderr=True, highlight=False, emoji=False, markup=False, soft_wrap=True)


def write_json_line(value: Mapping[str, object]) -> None:
    """Write one JSON object on a line of its own, at once, so that a pipe sees each when it is done."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()


def new_table(*columns: str, name_column: str = "", left: Iterable[str] = ()) -> Table:
    """Return an empty table. Only `name_column` gives way where the terminal is narrow; the others stay whole."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        justify: Literal["left", "right"] = "left" if column in (name_column, *left) else "right"
        table.add_column(column, justify=justify, no_wrap=column != name_column)
    return table


class FileName:
    """A file's name in a table: of one that is too long the end stays, since that tells files apart."""

    def __init__(self, text: str) -> None:
        self._text = printable(text)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        length = self._text.cell_len
        return Measurement(min(length, _SHORTEST_NAME_CELLS), length)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self._text
        if text.cell_len > options.max_width:
            end = text.plain
            while end and cell_len(end) >= options.max_width:
                end = end[1:]
            text = Text(f"\N{HORIZONTAL ELLIPSIS}{end}")
        yield text


def printable(text: str, style: str = "") -> Text:
    """Return text without markup in which control characters and broken encodings cannot reach the terminal."""
    return Text(
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text), style=style
    )


def size_text(size: tuple[int, int] | None) -> str:
    """Write a size as `plan` reads it: 1920x1080."""
    return "" if size is None else f"{size[0]}x{size[1]}"


def grid_text(plan: ImagePlan | None) -> str:
    """Write a patch grid: 1x78x138; or tiles and a thumbnail: 4x3+1. Nothing for an image that is a row by itself."""
    if plan is None:
        return ""
    if plan.grid_thw is not None:
        return f"{plan.grid_thw.t}x{plan.grid_thw.h}x{plan.grid_thw.w}"
    if plan.tile_grid is not None:
        return f"{plan.tile_grid.columns}x{plan.tile_grid.rows}{'+1' if plan.tile_grid.has_thumbnail else ''}"
    return ""


def digest_text(digest: str | None) -> str:
    """Write the beginning of a hexadecimal digest."""
    return "" if digest is None else digest[:_SHORT_DIGEST_DIGITS]


def milliseconds_text(milliseconds: float | None) -> str:
    """Write a time with the digits that matter: 0.8, 12, 1204."""
    if milliseconds is None:
        return ""
    return f"{milliseconds:.1f}" if milliseconds < 10 else f"{milliseconds:.0f}"


def bytes_text(size_bytes: int) -> str:
    """Write a number of bytes in the largest unit in which it is whole or has few digits: 64 MiB."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < _KIBIBYTE:
            break
        value, unit = value / _KIBIBYTE, larger
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
