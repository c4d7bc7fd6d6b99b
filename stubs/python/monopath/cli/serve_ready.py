"""How `monopath serve` says that it is ready."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from monopath_server import __version__

__all__ = ["ready_announcer"]


@contextlib.contextmanager
def ready_announcer(ready_file: Path | None) -> Iterator[Callable[[str], None]]:
    """Give what tells that the server is ready; what it wrote to a file is removed on the way out."""
    written = False

    def announce(address: str) -> None:
        nonlocal written
        if ready_file is not None:
            write_ready_file(ready_file, {"address": address, "pid": os.getpid(), "version": __version__})
            written = True
        sys.stdout.write(f"monopath {__version__} is ready at {address}\n")
        sys.stdout.flush()

    try:
        yield announce
    finally:
        if written and ready_file is not None:
            ready_file.unlink(missing_ok=True)


def write_ready_file(ready_file: Path, facts: Mapping[str, object]) -> None:
    """Write the facts so that a reader sees all of them or none."""
    draft = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
    draft.write_text(json.dumps(facts) + "\n", "utf-8")
    draft.replace(ready_file)
