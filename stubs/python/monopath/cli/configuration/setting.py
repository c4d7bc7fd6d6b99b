"""One setting, a row of the table."""

from __future__ import annotations

import enum
import operator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from monopath.cli.configuration.kinds import Kind
from monopath_server.settings import Settings

__all__ = ["DEFAULTS", "Group", "Setting"]

DEFAULTS: Final = Settings()
"""What holds where nothing is said."""


class Group(enum.StrEnum):
    """Headings under which `monopath serve --help` lists the settings, in this order."""

    CONFIGURATION = "Configuration"
    SERVER = "The server"
    SECURITY = "Security"
    TELEMETRY = "Telemetry"
    PROCESSES = "Processes and devices"
    STOPPING = "Stopping"
    ITEMS = "Limits of an image"
    STREAMS = "Limits of a stream"
    ALL_STREAMS = "Limits of all streams of a process"
    MEMORY = "Memory of a process"
    TIMES = "Times"


@dataclass(frozen=True, slots=True)
class Setting:
    """What can be set, and by which names."""

    name: str
    """Words joined by underscores: `max_streams` is `--max-streams` and `MONOPATH_MAX_STREAMS`."""
    kind: Kind[Any]
    help: str
    """A sentence or two for `--help`."""
    group: Group
    _: KW_ONLY
    sets: str = ""
    """The field of `Settings`, with dots where it is in a nested one. Empty: something else reads the value."""
    key: str = ""
    """The key in a file where it is not the name, with dots where it is in a table: `security.token_file`."""
    default: Any = None
    """What holds where nothing is said and `sets` is empty."""
    default_text: str = ""
    """The default in words, where it is another on each machine."""

    @property
    def flag(self) -> str:
        """The option of `monopath serve`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The variable of the environment."""
        return f"MONOPATH_{self.name.upper()}"

    @property
    def file_key(self) -> str:
        """The key in a file, with a dot between a table and its key."""
        return self.key or self.name

    @property
    def default_value(self) -> Any:
        """What holds where nothing is said."""
        return operator.attrgetter(self.sets)(DEFAULTS) if self.sets else self.default

    @property
    def default_shown(self) -> str:
        """The default, for people."""
        value = self.default_value
        return self.default_text or ("none" if value is None else self.kind.shown(value))
