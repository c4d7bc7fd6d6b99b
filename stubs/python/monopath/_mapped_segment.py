"""Bytes of a server's segment as this process's own: read from where the server wrote them, never written there."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from pathlib import Path
from typing import Any

from monopath.shared_memory import SegmentError, _check_range, _open_foreign, segment_header

__all__ = ["MappedBytes", "map_bytes"]

# `mmap.mmap` keeps a descriptor open for each mapping before Python 3.13: a thousand results would use up all of them.
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong
)  # fmt: skip
_LIBC.munmap.restype = ctypes.c_int
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = ctypes.c_void_p(-1).value


class MappedBytes:
    """Mapped memory, uint8 [length_bytes], for numpy to make arrays of. Lives as long as any of them."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, address: int, length_bytes: int) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (address, False),
            "shape": (length_bytes,),
            "typestr": "|u1",
        }


def map_bytes(directory: Path, name: str, offset_bytes: int, length_bytes: int, generation: int) -> MappedBytes:
    """Map bytes of a server's segment, so that writes to them stay this process's own.

    Raises:
        SegmentError: the name is no segment's, or the segment is missing, in another use, or ends before the bytes do.
        OSError: this process cannot map any more.
    """
    descriptor, size_bytes = _open_foreign(directory, name)
    try:
        _check_range(offset_bytes, length_bytes, size_bytes)
        expected = segment_header(generation)
        if os.pread(descriptor, len(expected), 0) != expected:
            raise SegmentError(f"Expected a segment in use {generation}, got one in another")
        lead_bytes = offset_bytes % mmap.PAGESIZE
        return _map(descriptor, offset_bytes - lead_bytes, lead_bytes, length_bytes)
    finally:
        os.close(descriptor)


def _map(descriptor: int, start_bytes: int, lead_bytes: int, length_bytes: int) -> MappedBytes:
    mapped_bytes = lead_bytes + length_bytes
    address = _LIBC.mmap(
        None, mapped_bytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, descriptor, start_bytes
    )
    if address == _MAP_FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    memory = MappedBytes(address + lead_bytes, length_bytes)
    weakref.finalize(memory, _LIBC.munmap, address, mapped_bytes).atexit = False
    return memory
