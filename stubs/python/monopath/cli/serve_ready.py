"""How `monopath serve` says that it is ready."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from monopath_server import __version__

__all__ = ["ReadyAnnouncer"]


class ReadyAnnouncer:
    """Tells that a server is ready, on stdout and in a file. A context manager: the file is removed on the way out."""

    def __init__(self, ready_file: Path | None) -> None:
        self._ready_file = ready_file
        self._is_written = False
        self._is_told = False

    def announce(self, address: str, more: Mapping[str, object] | None = None) -> None:
        """Write the line, the first time, and the file, with `more` facts in it."""
        if self._ready_file is not None:
            facts = {"address": address, "pid": os.getpid(), "version": __version__, **(more or {})}
            draft = self._ready_file.with_name(f".{self._ready_file.name}.{os.getpid()}")
            draft.write_text(json.dumps(facts) + "\n", "utf-8")
            draft.replace(self._ready_file)
            self._is_written = True
        if not self._is_told:
            sys.stdout.write(f"monopath {__version__} is ready at {address}\n")
            sys.stdout.flush()
            self._is_told = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._is_written and self._ready_file is not None:
            self._ready_file.unlink(missing_ok=True)
