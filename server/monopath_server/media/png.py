"""The one thing about a PNG that Pillow cannot tell without decoding it."""

from __future__ import annotations

import struct

__all__ = ["find_exif_chunk"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHUNK_HEADER = struct.Struct(">I4s")
_CHECKSUM_BYTES = 4
# Enough for 64 MiB in chunks of 1 KiB; a bound, since a file can consist of empty chunks.
_MAX_CHUNKS = 65_536


def find_exif_chunk(data: bytes) -> bytes | None:
    """Return the content of the first eXIf chunk, which may stand behind the pixels; None where there is none."""
    if not data.startswith(_SIGNATURE):
        return None
    offset = len(_SIGNATURE)
    for _ in range(_MAX_CHUNKS):
        if offset + _CHUNK_HEADER.size > len(data):
            return None
        length_bytes, chunk_type = _CHUNK_HEADER.unpack_from(data, offset)
        start = offset + _CHUNK_HEADER.size
        if chunk_type == b"eXIf":
            return data[start : start + length_bytes]
        offset = start + length_bytes + _CHECKSUM_BYTES
    return None
