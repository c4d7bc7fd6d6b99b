"""The form of bearer tokens and of their files, of which a client sends the first token and a server knows all."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["is_token", "token_lines"]

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")


def is_token(text: bytes) -> bool:
    """Return whether a token may look so, as RFC 6750 has it."""
    return _TOKEN.fullmatch(text) is not None


def token_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are to be tokens, and their numbers: no empty ones, and none that begin with "#"."""
    for number, line in enumerate(content.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith(b"#"):
            yield number, stripped
