"""A file in memory that can be read so often and no more.

Pillow parses headers in Python, segment by segment. A hostile file of 64 MiB can hold 16 million empty segments (a
minute of one core), or let thousands of TIFF tags share one block of data (gigabytes), and be small in pixels.
"""

from __future__ import annotations

import io
from typing import Final

__all__ = ["BoundedReader", "TooManyReadsError", "bounded_file"]

_MAX_READS: Final = 300_000
# Every plugin passes over a file at most a few times: to identify it, to read its header, to decode it.
_MAX_PASSES: Final = 8
_FREE_BYTES: Final = 1024 * 1024
_JPEG_START: Final = b"\xff\xd8\xff"
# Every read takes at least a byte of a JPEG file's header, and none is read twice but by the decoder.
_LARGEST_FREE_JPEG_BYTES: Final = 256 * 1024


class TooManyReadsError(Exception):
    """A file was read more often, or more of it, than any whole image needs."""


class BoundedReader(io.BytesIO):
    """Bytes as a file, without a copy of them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._reads_left = _MAX_READS
        self._bytes_left = _MAX_PASSES * len(data) + _FREE_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does.

        Raises:
            TooManyReadsError: the file was read too often.
        """
        result = super().read(size)
        self._reads_left -= 1
        self._bytes_left -= len(result)
        if self._reads_left < 0 or self._bytes_left < 0:
            raise TooManyReadsError
        return result


def bounded_file(data: bytes) -> io.BytesIO:
    """Return bytes as a file that is bounded, by their own number or by counting.

    Counting costs a small image a twentieth of its time.
    """
    is_free = len(data) <= _LARGEST_FREE_JPEG_BYTES and data.startswith(_JPEG_START)
    return io.BytesIO(data) if is_free else BoundedReader(data)
