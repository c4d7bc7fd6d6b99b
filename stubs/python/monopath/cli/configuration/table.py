"""All settings of `monopath serve`. Options, environment, file, README and `--check` are made of these rows."""

from __future__ import annotations

from typing import Final

from monopath.cli.configuration.limit_rows import LIMIT_ROWS
from monopath.cli.configuration.security_rows import SECURITY_ROWS
from monopath.cli.configuration.server_rows import SERVER_ROWS
from monopath.cli.configuration.setting import Group, Setting
from monopath.cli.configuration.telemetry_rows import TELEMETRY_ROWS

__all__ = ["SETTINGS"]

SETTINGS: Final[tuple[Setting, ...]] = tuple(
    row for group in Group for row in (*SERVER_ROWS, *SECURITY_ROWS, *TELEMETRY_ROWS, *LIMIT_ROWS) if row.group is group
)
"""In the order of their groups."""
