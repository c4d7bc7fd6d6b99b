"""A client's bearer token, given or from a file."""

from __future__ import annotations

import contextlib
from pathlib import Path

from monopath.token_form import is_token, token_lines

__all__ = ["Token"]


class Token:
    """The token of a client. One in a file is read again for each call, so that it can be replaced."""

    def __init__(self, source: str | Path) -> None:
        """Raises ValueError for what is no token, OSError for a file that cannot be read."""
        self._file = source if isinstance(source, Path) else None
        self._value = (
            _checked(source.encode("utf-8", "replace"), "the token") if isinstance(source, str) else _read(source)
        )

    def latest(self) -> str:
        """Return the token of now; while its file cannot be read, that of before."""
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self._value = _read(self._file)
        return self._value


def _read(file: Path) -> str:
    """Return the first token of a file."""
    first = next((line for _, line in token_lines(file.read_bytes())), b"")
    return _checked(first, f"the first line of {file}")


def _checked(token: bytes, where: str) -> str:
    # The text must not show what may be a secret.
    if not is_token(token):
        raise ValueError(f"Expected {where} to be letters, digits and -._~+/ only, got something else")
    return token.decode("ascii")
