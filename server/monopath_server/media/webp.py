"""The size of a WebP's canvas, read without the WebP library, which allocates the canvas to tell it."""

from __future__ import annotations

from monopath_server.processors.types import Size

__all__ = ["read_canvas_size"]

_HEADER_BYTES = 30
_SIDE_MASK = 0x3FFF


def read_canvas_size(data: bytes) -> Size | None:
    """Return the canvas size that a WebP's header declares; None where `data` is no WebP or too short to tell."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < _HEADER_BYTES:
        return None
    match data[12:16]:
        case b"VP8X":
            return Size(int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1)
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return Size((bits & _SIDE_MASK) + 1, (bits >> 14 & _SIDE_MASK) + 1)
        case b"VP8 ":
            return Size(
                int.from_bytes(data[26:28], "little") & _SIDE_MASK, int.from_bytes(data[28:30], "little") & _SIDE_MASK
            )
        case _:
            return None
