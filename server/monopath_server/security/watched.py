"""What is read from files and read again when they change, as secrets do that are replaced under a running server."""

from __future__ import annotations

import logging
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from monopath_server.security.settings import SecurityError

__all__ = ["WatchedFiles", "read_file", "warn_of_readers"]

MAX_FILE_BYTES = 1 << 20
ValueT = TypeVar("ValueT")
logger = logging.getLogger(__name__)

_Signature = tuple[tuple[int, ...] | None, ...]


class WatchedFiles(Generic[ValueT]):
    """The value of the files as they are now; while they cannot be read, that of before. Threads may share it."""

    def __init__(self, what: str, files: tuple[Path, ...], read: Callable[[], ValueT]) -> None:
        """`what` names the value in the log. `read` reads it, and raises SecurityError, as this does at first."""
        self._what = what
        self._files = files
        self._read = read
        self._lock = threading.Lock()
        # Before the reading: a change in between is seen the next time.
        self._signature = self._look()
        self._value = read()

    def latest(self) -> ValueT:
        """Look at the files, read them if they changed, and return the value. Never raises."""
        with self._lock:
            signature = self._look()
            if signature != self._signature:
                self._signature = signature
                try:
                    self._value = self._read()
                except SecurityError as error:
                    # Half written, or one of a pair before the other: once for each state of the files.
                    logger.warning("Went on with the %s of before: %s", self._what, error)
                else:
                    logger.info("Took up new %s", self._what)
            return self._value

    def _look(self) -> _Signature:
        return tuple(_state_of(file) for file in self._files)


def read_file(file: Path) -> bytes:
    """Return what is in a small file. Raises SecurityError that names it."""
    try:
        # A pipe would be read once, and a device for ever.
        if not stat.S_ISREG(file.stat().st_mode):
            raise SecurityError(f"Expected a file, got {file}, which is something else")
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SecurityError(f"Cannot read {file}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise SecurityError(f"Expected at most {MAX_FILE_BYTES} bytes in {file}, got more")
    return content


def warn_of_readers(file: Path) -> None:
    """Say in the log that every user of this host can read a secret.

    It is no error, since a mounted secret is often so, in a container with one user.
    """
    mode = file.stat().st_mode
    if mode & stat.S_IROTH:
        logger.warning("Every user can read the secret in %s (mode %04o): chmod 600", file, stat.S_IMODE(mode))


def _state_of(file: Path) -> tuple[int, ...] | None:
    """Return what changes with a file's content, None where it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
