"""How a message of these processes lies in bytes: a JSON header, and blobs behind it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from examples.encoder.faults import Refused

__all__ = ["Buffer", "Header", "pack", "unpack"]

Buffer: TypeAlias = bytes | memoryview
Header: TypeAlias = dict[str, Any]

_LENGTH_BYTES = 4


def pack(header: Header, blobs: Sequence[Buffer]) -> bytes:
    """Return the message: the header's length (4 bytes, little-endian), the header, and the blobs, in their order."""
    sizes = [blob.nbytes if isinstance(blob, memoryview) else len(blob) for blob in blobs]
    text = json.dumps({"header": header, "blob_bytes": sizes}).encode()
    return b"".join((len(text).to_bytes(_LENGTH_BYTES, "little"), text, *blobs))


def unpack(message: bytes) -> tuple[Header, list[memoryview]]:
    """Return the header, and the blobs as views of the message. Raises Refused for what `pack` did not make."""
    header_end = _LENGTH_BYTES + int.from_bytes(message[:_LENGTH_BYTES], "little")
    try:
        envelope = json.loads(message[_LENGTH_BYTES:header_end])
        header, sizes = dict(envelope["header"]), [int(size) for size in envelope["blob_bytes"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"Expected a header in JSON, got {type(error).__name__}") from None
    if min(sizes, default=0) < 0 or header_end + sum(sizes) != len(message):
        raise Refused(f"Expected blobs of {sum(sizes)} bytes, got {len(message) - header_end}")
    blobs: list[memoryview] = []
    view, start = memoryview(message), header_end
    for size in sizes:
        blobs.append(view[start : start + size])
        start += size
    return header, blobs
