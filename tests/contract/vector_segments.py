"""Puts the shared memory that a vector's requests speak of in place, as a client would that made it.

A vector names a segment by a placeholder. Each run gets segments of its own, under names that nobody else has.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import secrets
from collections.abc import Iterator
from pathlib import Path

from tests.contract.vector_cases import Vector

__all__ = ["placed_segments"]

_DIRECTORY = Path("/dev/shm")


@contextlib.contextmanager
def placed_segments(vector: Vector) -> Iterator[Vector]:
    """Give the vector with the names of segments that are there until the end of the block."""
    if not vector.segments:
        yield vector
        return
    owner = _DIRECTORY / f"monopath-{secrets.token_hex(16)}"
    names = {placeholder: f"{owner.name}-{secrets.token_hex(16)}" for placeholder in vector.segments}
    with contextlib.ExitStack() as cleanup:
        # A segment whose owner's file nobody has locked may be swept by anyone.
        owner_file = cleanup.enter_context(owner.open("xb"))
        cleanup.callback(owner.unlink)
        fcntl.flock(owner_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for placeholder, segment in vector.segments.items():
            path = _DIRECTORY / names[placeholder]
            with path.open("xb") as file:
                cleanup.callback(path.unlink)
                file.write(base64.b64decode(segment["data"], validate=True))
                # Without writing: a large segment of zeros takes no memory.
                file.truncate(segment["size_bytes"])
        yield vector.naming(names)
