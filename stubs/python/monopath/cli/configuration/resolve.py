"""From what flags, environment and file say to the values that hold."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monopath.cli.configuration.file import FileValues, read_file
from monopath.cli.configuration.setting import Setting
from monopath.cli.configuration.table import SETTINGS

__all__ = ["CONFIG_VARIABLE", "Found", "Resolution", "Source", "misspelt_variables", "resolve"]

CONFIG_VARIABLE = "MONOPATH_CONFIG"
"""Names the file where `--config` does not."""


class Source(enum.StrEnum):
    """Where a value came from; an earlier one prevails."""

    FLAG = enum.auto()
    ENVIRONMENT = enum.auto()
    FILE = enum.auto()
    DEFAULT = enum.auto()


@dataclass(frozen=True, slots=True)
class Found:
    """The value that holds."""

    setting: Setting
    value: Any
    source: Source
    origin: str
    """The option, the variable or the file; empty for a default."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The values of all settings that have a right one, and what is wrong with the others."""

    found: Mapping[str, Found]
    faults: tuple[str, ...]

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting by its name."""
        return self.found[name].value


def resolve(
    given: Mapping[str, object],
    environment: Mapping[str, str],
    config: Path | None = None,
    settings: Sequence[Setting] = SETTINGS,
) -> Resolution:
    """Find the value of each setting: of its option, else its variable, else the file, else its default.

    Args:
        given: Values of options by the settings' names: a text, a list of texts, a bool, or None where none was given.
        environment: The variables; an empty one counts as none.
        config: What `--config` says; the variable `MONOPATH_CONFIG` stands in for it.
        settings: The table.
    """
    path = config or (Path(text) if (text := environment.get(CONFIG_VARIABLE)) else None)
    file = FileValues({}, ()) if path is None else read_file(path, settings)
    found: dict[str, Found] = {}
    faults: list[str] = []
    for setting in settings:
        try:
            found[setting.name] = _find(setting, given.get(setting.name), environment, file, str(path))
        except ValueError as error:
            faults.append(str(error))
    return Resolution(found, (*faults, *file.faults))


def misspelt_variables(environment: Iterable[str], settings: Sequence[Setting] = SETTINGS) -> Iterator[str]:
    """Say which variables are none of ours and yet nearly are: they would go unnoticed.

    Others that begin with MONOPATH_ are fine: clients have some, and Kubernetes makes some for a Service of that name.
    """
    known = [CONFIG_VARIABLE, *(setting.variable for setting in settings)]
    for name in environment:
        if name.startswith("MONOPATH_") and name not in known:
            for close in difflib.get_close_matches(name, known, n=1, cutoff=0.93):
                yield f"{name}: no setting has this variable; {close} is one"


def _find(setting: Setting, given: object, environment: Mapping[str, str], file: FileValues, file_name: str) -> Found:
    """Raises ValueError, with where the wrong value came from."""
    if given is not None and given != []:
        return Found(setting, _read(setting, given, setting.flag), Source.FLAG, setting.flag)
    if text := environment.get(setting.variable):
        return Found(setting, _read(setting, text, setting.variable), Source.ENVIRONMENT, setting.variable)
    if setting.name in file.values:
        return Found(setting, file.values[setting.name], Source.FILE, file_name)
    return Found(setting, setting.default_value, Source.DEFAULT, "")


def _read(setting: Setting, given: object, origin: str) -> Any:
    try:
        match given:
            case bool():
                return given
            case str():
                return setting.kind.from_text(given)
            case _:
                assert isinstance(given, Sequence)
                return setting.kind.from_texts([str(text) for text in given])
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from None
