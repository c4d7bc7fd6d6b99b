"""The table of settings in README.md. `python -m monopath.cli.configuration.readme README.md` writes it anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from monopath.cli.configuration.setting import Setting
from monopath.cli.configuration.table import SETTINGS

__all__ = ["with_table"]

_BEGIN = "<!-- made by `make settings-table` -->\n"
_END = "<!-- end -->\n"


def with_table(text: str, settings: Sequence[Setting] = SETTINGS) -> str:
    """Return the text with the table of these settings between its two marks. Raises ValueError without them."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"Expected the lines {_BEGIN.strip()} and {_END.strip()}, got none")
    return "".join((before, begin, "\n", *_rows(settings), "\n", end, after))


def _rows(settings: Sequence[Setting]) -> Iterator[str]:
    yield "| option | environment | in a file | default |\n|---|---|---|---|\n"
    for setting in settings:
        name = setting.flag
        if setting.kind.may_repeat:
            name += f" {setting.kind.metavar}"
        yield f"| `{name}` | `{setting.variable}` | `{setting.file_key}` | {setting.default_shown} |\n"


def _main() -> None:
    [path] = map(Path, sys.argv[1:])
    path.write_text(with_table(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    _main()
