"""A TOML file with settings."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monopath.cli.configuration.setting import Setting

__all__ = ["FileValues", "read_file"]


@dataclass(frozen=True, slots=True)
class FileValues:
    """What a file says."""

    values: Mapping[str, Any]
    """By the settings' names."""
    faults: tuple[str, ...]
    """What is wrong with it, each with file and key."""


def read_file(path: Path, settings: Sequence[Setting]) -> FileValues:
    """Read a file, all of it, however much is wrong."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        return FileValues({}, (f"{path}: cannot be read: {error.strerror}",))
    except UnicodeDecodeError:
        return FileValues({}, (f"{path}: expected UTF-8 text, got other bytes",))
    except tomllib.TOMLDecodeError as error:
        return FileValues({}, (f"{path}: expected TOML, got a text that is none: {error}",))
    folder = path.absolute().parent
    by_key = {setting.file_key: setting for setting in settings}
    values: dict[str, Any] = {}
    faults: list[str] = []
    for key, value in _leaves(document, by_key):
        setting = by_key.get(key)
        if setting is None:
            faults.append(f"{path}: {key}: {_unknown(key, tuple(by_key))}")
            continue
        try:
            values[setting.name] = setting.kind.from_toml(setting.kind.placed(value, folder))
        except ValueError as error:
            faults.append(f"{path}: {key}: {error}")
    return FileValues(values, tuple(faults))


def _leaves(table: Mapping[str, Any], known: Mapping[str, Setting], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with the dotted path of its key; a table that is a setting itself is one value."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and key not in known:
            yield from _leaves(value, known, f"{key}.")
        else:
            yield key, value


def _unknown(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.7)
    return "expected the key of a setting, got an unknown one" + (f"; {close[0]} is one" if close else "")
