"""Kinds of values that settings have: how each is read from a text and from TOML, and written again.

A reader raises ValueError with "expected ..., got ..."; where the value came from is said by who called it.
"""

from __future__ import annotations

import enum
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from monopath.cli.configuration.toml import toml_text

__all__ = ["Bytes", "Choice", "Kind", "Names", "Number", "Seconds", "Switch", "Text", "exact_bytes_text"]

ValueT = TypeVar("ValueT")
ChoiceT = TypeVar("ChoiceT", bound=enum.StrEnum)
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_NUMBER_WITH_UNIT = re.compile(r"(\d{1,18})\s*([a-z]*)", re.ASCII | re.IGNORECASE)
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Kind(ABC, Generic[ValueT]):
    """Reads and writes the values of one kind."""

    metavar: str
    """What stands for the value in `--help`."""
    is_switch = False
    """The option has no value: it is there or not."""
    may_repeat = False
    """The option may be given many times."""

    @abstractmethod
    def from_text(self, text: str) -> ValueT:
        """Read what an option, or a variable of the environment, says. Raises ValueError."""

    def from_texts(self, texts: Sequence[str]) -> ValueT:
        """Read an option that was given many times: the last one counts, where the kind says nothing else."""
        return self.from_text(texts[-1])

    @abstractmethod
    def from_toml(self, value: object) -> ValueT:
        """Read what a file says. Raises ValueError."""

    def placed(self, value: object, folder: Path) -> object:
        """Return what a file says with relative paths beginning at the file's `folder`."""
        del folder
        return value

    @abstractmethod
    def to_toml(self, value: ValueT) -> str:
        """Write a value as TOML."""

    def to_text(self, value: ValueT) -> str:
        """Write a value as `from_text` reads it."""
        return str(value)

    def shown(self, value: ValueT) -> str:
        """Write a value for people."""
        return self.to_text(value)

    def to_arguments(self, flag: str, value: ValueT) -> list[str]:
        """Write a value as arguments of the command line."""
        return [f"{flag}={self.to_text(value)}"]

    def for_process(self, value: ValueT, index: int) -> ValueT:
        """Return the value for one, from 0, of several processes that have the same settings."""
        del index
        return value


@dataclass(frozen=True, slots=True)
class Number(Kind[int]):
    """A whole number of something."""

    metavar: str
    low: int = 1
    high: int = 1_000_000
    unit: str = ""
    """Written behind the number, for people."""

    def from_text(self, text: str) -> int:
        if re.fullmatch(r"[+-]?\d{1,18}", text.strip(), re.ASCII) is None:
            raise ValueError(f"expected a whole number, got {text!r}")
        return self._in_range(int(text))

    def from_toml(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"expected a whole number, got {toml_text(value)}")
        return self._in_range(value)

    def to_toml(self, value: int) -> str:
        return str(value)

    def shown(self, value: int) -> str:
        return f"{value} {self.unit}" if self.unit else str(value)

    def _in_range(self, value: int) -> int:
        if not self.low <= value <= self.high:
            raise ValueError(f"expected {self.low} to {self.high}, got {value}")
        return value


@dataclass(frozen=True, slots=True)
class Bytes(Kind[int]):
    """A number of bytes, with a unit or without: 65536, 64KiB, 1GiB."""

    low: int = 1
    high: int = 1 << 40
    metavar = "BYTES"

    def from_text(self, text: str) -> int:
        match = _NUMBER_WITH_UNIT.fullmatch(text.strip())
        factor = _UNITS.get(match[2].lower()) if match else None
        if match is None or factor is None:
            raise ValueError(f"expected a number of bytes such as 65536, 64KiB, 16MiB, got {text!r}")
        return self._in_range(int(match[1]) * factor)

    def from_toml(self, value: object) -> int:
        if isinstance(value, str):
            return self.from_text(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f'expected a number of bytes such as 65536, "64KiB", "16MiB", got {toml_text(value)}')
        return self._in_range(value)

    def to_toml(self, value: int) -> str:
        return toml_text(self.to_text(value))

    def to_text(self, value: int) -> str:
        return exact_bytes_text(value).replace(" ", "")

    def shown(self, value: int) -> str:
        return exact_bytes_text(value)

    def _in_range(self, value: int) -> int:
        if not self.low <= value <= self.high:
            raise ValueError(f"expected {self.low} to {self.high} bytes, got {value}")
        return value


@dataclass(frozen=True, slots=True)
class Seconds(Kind[float]):
    """A span of time."""

    low: float = 0.0
    high: float = 1e9
    metavar = "SECONDS"

    def from_text(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"expected a number of seconds, got {text!r}") from None
        return self._in_range(value)

    def from_toml(self, value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"expected a number of seconds, got {toml_text(value)}")
        return self._in_range(float(value))

    def to_toml(self, value: float) -> str:
        return f"{value:.15g}"

    def to_text(self, value: float) -> str:
        return f"{value:.15g}"

    def shown(self, value: float) -> str:
        return f"{value:.15g} seconds"

    def _in_range(self, value: float) -> float:
        if math.isnan(value) or not self.low <= value <= self.high:
            raise ValueError(f"expected {self.low:g} to {self.high:g} seconds, got {value:g}")
        return value


class Choice(Kind[ChoiceT]):
    """One of the values of an enum."""

    def __init__(self, options: type[ChoiceT]) -> None:
        self.options = options
        self.metavar = f"<{'|'.join(options)}>"

    def from_text(self, text: str) -> ChoiceT:
        try:
            return self.options(text.lower())
        except ValueError:
            raise ValueError(f"expected one of {', '.join(self.options)}, got {text!r}") from None

    def from_toml(self, value: object) -> ChoiceT:
        if not isinstance(value, str):
            raise ValueError(f"expected one of {', '.join(self.options)}, got {toml_text(value)}")
        return self.from_text(value)

    def to_toml(self, value: ChoiceT) -> str:
        return toml_text(str(value))


@dataclass(frozen=True, slots=True)
class Switch(Kind[bool]):
    """On or off: `--name` or `--no-name`."""

    metavar = ""
    is_switch = True

    def from_text(self, text: str) -> bool:
        try:
            return _SWITCHES[text.strip().lower()]
        except KeyError:
            raise ValueError(f"expected true or false, got {text!r}") from None

    def from_toml(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {toml_text(value)}")
        return value

    def to_toml(self, value: bool) -> str:
        return toml_text(value)

    def to_text(self, value: bool) -> str:
        return toml_text(value)

    def to_arguments(self, flag: str, value: bool) -> list[str]:
        return [flag if value else f"--no-{flag.removeprefix('--')}"]


@dataclass(frozen=True, slots=True)
class Text(Kind[str]):
    """A text of some form."""

    metavar: str
    pattern: str
    """A regular expression that all of it matches."""
    expected: str
    """The form in words: `http://host:port`."""

    def from_text(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"expected {self.expected}, got {text!r}")
        return text

    def from_toml(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected {self.expected}, got {toml_text(value)}")
        return self.from_text(value)

    def to_toml(self, value: str) -> str:
        return toml_text(value)


@dataclass(frozen=True, slots=True)
class Names(Kind[tuple[str, ...]]):
    """Several names: separated by commas in a text, a list in a file."""

    metavar: str

    def from_text(self, text: str) -> tuple[str, ...]:
        return self._all_named(tuple(part.strip() for part in text.split(",")))

    def from_toml(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(it, str) for it in value):
            raise ValueError(f"expected a list of names, got {toml_text(value)}")
        return self._all_named(tuple(value))

    def to_toml(self, value: tuple[str, ...]) -> str:
        return toml_text(value)

    def to_text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)

    def _all_named(self, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(value) or len(set(value)) < len(value):
            raise ValueError(f"expected names, each once, got {','.join(value)!r}")
        return value


def exact_bytes_text(size_bytes: int) -> str:
    """Write a number of bytes in the largest unit in which it is whole: 64 MiB, 1536 KiB."""
    value, unit = size_bytes, "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value == 0 or value % 1024:
            break
        value, unit = value // 1024, larger
    return f"{value} {unit}"
