"""Reads JSON objects key by key and collects everything that is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar, cast

from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors.json_values import RefusedValue, show
from monopath_server.processors.ranges import shorten

__all__ = ["IGNORED_KEYS", "ObjectReader", "load_object", "refuse"]

IGNORED_KEYS: Final = frozenset(
    {
        "auto_map",
        "feature_extractor_type",
        "image_processor_type",
        "processor_class",
        "transformers_version",
        "video_processor_type",
        "_name_or_path",
    }
)
"""Keys of every family that say nothing of an image's features."""

_Value = TypeVar("_Value")


class _DuplicateKey(ValueError):
    """A JSON object names one key twice."""


def load_object(text: str) -> dict[str, object]:
    try:
        root: object = json.loads(text, object_pairs_hook=_unique_keys)
    except _DuplicateKey as error:
        refuse("", str(error))
    except (ValueError, RecursionError):
        # The parser's own text quotes positions only, but a deep nesting or a huge number has no clean one.
        refuse("", "Expected a JSON object, got text that is not JSON")
    if not isinstance(root, dict):
        refuse("", f"Expected a JSON object, got {show(root)}")
    return cast("dict[str, object]", root)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKey(f"Expected every key once, got {shorten(key)} twice")
        result[key] = value
    return result


def refuse(field: str, description: str) -> NoReturn:
    raise ConfigFault((ConfigViolation(field, description),))


class ObjectReader:
    """Reads the keys of one JSON object and collects what is wrong with them."""

    def __init__(self, values: dict[str, object], prefix: str, violations: list[ConfigViolation]) -> None:
        self._values = values
        self._prefix = prefix
        self._violations = violations

    def unknown_keys(self, known: frozenset[str]) -> list[ConfigViolation]:
        """Return a warning for every key that is not known."""
        return [
            ConfigViolation(self._prefix + shorten(key), "Unknown key, ignored")
            for key in self._values
            if key not in known
        ]

    def required(self, key: str, read: Callable[[object], _Value]) -> _Value | None:
        """Read a key that must be there; None where it is missing or wrong, which is then recorded."""
        if key not in self._values:
            self._violations.append(ConfigViolation(self._prefix + key, "Expected a value, got none"))
            return None
        return self._read(key, read)

    def optional(self, key: str, read: Callable[[object], _Value], default: _Value) -> _Value:
        """Read a key that may be absent; `default` where it is absent or wrong."""
        if key not in self._values:
            return default
        value = self._read(key, read)
        return default if value is None else value

    def _read(self, key: str, read: Callable[[object], _Value]) -> _Value | None:
        try:
            return read(self._values[key])
        except RefusedValue as error:
            self._violations.append(ConfigViolation(self._prefix + key, str(error)))
            return None

    def nested(self, key: str) -> ObjectReader | None:
        """Return a reader of the object under `key`; None where it is absent, null or no object."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._violations.append(
                ConfigViolation(self._prefix + key, f"Expected an object or null, got {show(value)}")
            )
            return None
        return ObjectReader(cast("dict[str, object]", value), f"{self._prefix}{key}.", self._violations)
