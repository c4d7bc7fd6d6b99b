"""From resolved values to `Settings`, and back to arguments of the command line and to TOML."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from monopath.cli.configuration.resolve import Found, Source
from monopath_server.processors.family import ProcessorConfig
from monopath_server.settings import Settings

__all__ = ["build_settings", "to_arguments", "to_toml"]


def build_settings(found: Iterable[Found], presets: Mapping[str, ProcessorConfig]) -> Settings:
    """Put the values into the fields that they are for."""
    changes: dict[str, Any] = {"presets": presets}
    for one in found:
        if one.setting.sets:
            *outer, field = one.setting.sets.split(".")
            place = changes
            for name in outer:
                place = place.setdefault(name, {})
            place[field] = one.value
    settings: Settings = _replaced(Settings(), changes)
    return settings


def to_arguments(found: Iterable[Found], replaced: Mapping[str, Any]) -> list[str]:
    """Write what is no default as options. `replaced` has other values by the settings' names; None leaves one out."""
    arguments: list[str] = []
    for one in found:
        setting = one.setting
        if setting.name in replaced:
            value = replaced[setting.name]
        elif one.source is Source.DEFAULT:
            continue
        else:
            value = one.value
        if value is not None:
            arguments += setting.kind.to_arguments(setting.flag, value)
    return arguments


def to_toml(found: Iterable[Found]) -> Iterator[str]:
    """Write all values, a line each, as a file that says the same, with where each came from behind it."""
    tables: dict[str, list[str]] = {}
    for one in found:
        table, _, key = one.setting.file_key.rpartition(".")
        origin = f"# {one.origin or 'default'}"
        if one.value is None:
            line = f"# {key}: none  {origin}"
        else:
            line = f"{key} = {one.setting.kind.to_toml(one.value)}  {origin}"
        tables.setdefault(table, []).append(line)
    yield from tables.pop("", [])
    for table, lines in tables.items():
        yield f"\n[{table}]"
        yield from lines


def _replaced(instance: Any, changes: Mapping[str, Any]) -> Any:
    """Return a copy of a frozen dataclass; a nested dict changes fields of the nested dataclass."""
    return dataclasses.replace(
        instance,
        **{
            name: _replaced(getattr(instance, name), value)
            if dataclasses.is_dataclass(getattr(instance, name))
            else value
            for name, value in changes.items()
        },
    )
