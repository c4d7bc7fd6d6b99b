"""Bearer tokens: a file of them, and whether a call has one."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from monopath.token_form import is_token, token_lines
from monopath_server.security.settings import SecurityError
from monopath_server.security.watched import WatchedFiles, read_file, warn_of_readers

__all__ = ["Tokens", "bearer_token"]

MIN_TOKEN_CHARACTERS = 16
_SCHEME = "bearer "


class Tokens:
    """The tokens of a file: one a line; empty lines, and those that begin with "#", do not count.

    Several hold at the same time, so that a new one can be handed out before the old one goes. The file is read again
    when it changes. Only digests are kept.
    """

    def __init__(self, file: Path) -> None:
        """Raises SecurityError for a file that cannot be read, without a token, or with a line that is none."""
        self._digests = WatchedFiles("tokens", (file,), lambda: _read(file))
        warn_of_readers(file)

    def knows(self, token: str) -> bool:
        """Return whether a token is among them, in a time that tells nothing of how much of it is right."""
        given = _digest(token.encode("utf-8", "replace"))
        known = False
        for digest in self._digests.latest():
            known |= hmac.compare_digest(digest, given)
        return known


def bearer_token(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Return the token in a call's metadata; None where there is none, or more than one."""
    values = [value for key, value in metadata if key == "authorization"]
    value = values[0] if len(values) == 1 else b""
    if isinstance(value, bytes):
        return None
    return value[len(_SCHEME) :].strip() if value[: len(_SCHEME)].lower() == _SCHEME else None


def _read(file: Path) -> tuple[bytes, ...]:
    digests = []
    for number, line in token_lines(read_file(file)):
        # The text must not show what may be a secret.
        if not is_token(line) or len(line) < MIN_TOKEN_CHARACTERS:
            raise SecurityError(
                f"Expected a token of at least {MIN_TOKEN_CHARACTERS} letters, digits or -._~+/ in line {number} of "
                f"{file}, got {len(line)} characters that are none; `openssl rand -hex 32` makes one"
            )
        digests.append(_digest(line))
    if not digests:
        raise SecurityError(f"Expected a token in {file}, got none; `openssl rand -hex 32` makes one")
    return tuple(digests)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
