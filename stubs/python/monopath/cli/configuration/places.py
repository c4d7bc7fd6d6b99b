"""Kinds of values that name a place: an address to listen at, a file, a folder."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from monopath.cli.configuration.kinds import Kind
from monopath.cli.configuration.toml import toml_text
from monopath.cli.listening import address_fault
from monopath_server.supervision.addresses import address_of_process

__all__ = ["Address", "ExistingFile", "Folder", "NewFile", "PresetFile", "PresetFiles"]


@dataclass(frozen=True, slots=True)
class PresetFile:
    """A config that a server is to have under a name."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Address(Kind[str]):
    """Where to listen: `host:port` or `unix:/path`. Of several processes each has the next port, or a numbered path."""

    metavar = "ADDRESS"
    may_be_socket: bool = True
    """`unix:/path` will do."""

    def from_text(self, text: str) -> str:
        if not self.may_be_socket and text.startswith("unix:"):
            raise ValueError(f"expected host:port, got {text!r}")
        if fault := address_fault(text):
            raise ValueError(f"{fault}, got {text!r}")
        return text

    def from_toml(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected an address such as 127.0.0.1:50051, got {toml_text(value)}")
        return self.from_text(value)

    def to_toml(self, value: str) -> str:
        return toml_text(value)

    def for_process(self, value: str, index: int) -> str:
        return address_of_process(value, index)


class _Path(Kind[Path]):
    """A path; what has to be true of it is for subclasses to say."""

    def from_text(self, text: str) -> Path:
        return self._checked(Path(text))

    def from_toml(self, value: object) -> Path:
        if not isinstance(value, str) or not value:
            raise ValueError(f"expected a path, got {toml_text(value)}")
        return self._checked(Path(value))

    def placed(self, value: object, folder: Path) -> object:
        return str(folder / value) if isinstance(value, str) and value else value

    def to_toml(self, value: Path) -> str:
        return toml_text(value.absolute())

    @abstractmethod
    def _checked(self, path: Path) -> Path:
        """Return the path. Raises ValueError."""


class NewFile(_Path):
    """A file that the server writes: its folder has to be there."""

    metavar = "FILE"

    def _checked(self, path: Path) -> Path:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ValueError(f"expected a folder that can be written to, got {folder}")
        return path


class ExistingFile(_Path):
    """A file that the server reads."""

    metavar = "FILE"

    def _checked(self, path: Path) -> Path:
        try:
            with path.open("rb"):
                return path
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from None


class Folder(_Path):
    """A folder in which the server makes files."""

    metavar = "FOLDER"

    def _checked(self, path: Path) -> Path:
        if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
            raise ValueError(f"expected a folder that can be written to, got {path}")
        return path


class PresetFiles(Kind[tuple[PresetFile, ...]]):
    """Configs by name: NAME=FILE, many times; in the environment separated by spaces, in a file a table."""

    metavar = "NAME=FILE"
    may_repeat = True

    def from_text(self, text: str) -> tuple[PresetFile, ...]:
        return tuple(map(_preset_file, text.split()))

    def from_texts(self, texts: Sequence[str]) -> tuple[PresetFile, ...]:
        return tuple(map(_preset_file, texts))

    def from_toml(self, value: object) -> tuple[PresetFile, ...]:
        if not isinstance(value, Mapping) or not all(isinstance(path, str) and path for path in value.values()):
            raise ValueError(f'expected a table of NAME = "FILE", got {toml_text(value)}')
        return tuple(PresetFile(name, Path(path)) for name, path in value.items())

    def placed(self, value: object, folder: Path) -> object:
        if not isinstance(value, Mapping):
            return value
        return {name: str(folder / path) if isinstance(path, str) and path else path for name, path in value.items()}

    def to_toml(self, value: tuple[PresetFile, ...]) -> str:
        return toml_text({file.name: file.path.absolute() for file in value})

    def to_text(self, value: tuple[PresetFile, ...]) -> str:
        return " ".join(f"{file.name}={file.path}" for file in value)

    def to_arguments(self, flag: str, value: tuple[PresetFile, ...]) -> list[str]:
        return [f"{flag}={file.name}={file.path}" for file in value]


def _preset_file(text: str) -> PresetFile:
    name, separator, path = text.partition("=")
    if not separator or not name or not path:
        raise ValueError(f"expected NAME=FILE, got {text!r}")
    return PresetFile(name, Path(path))
