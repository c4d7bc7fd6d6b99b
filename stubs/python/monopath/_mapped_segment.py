"""Bytes of a server's segment as this process's own: read from where the server wrote them, never written there.

Mapping is what shared memory costs: to map 12 MB, touch them and unmap them takes longer than to read them. A server
uses its segments again, so mappings are kept for the next item; one that was written to has pages of its own, which
hide what the server writes later, and is not.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from monopath.shared_memory import SegmentError, _check_range, _open_foreign, segment_header

__all__ = ["MappedBytes", "SegmentMappings"]

# `mmap.mmap` keeps a descriptor open for each mapping before Python 3.13: a thousand results would use up all of them.
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong
)  # fmt: skip
_LIBC.munmap.restype = ctypes.c_int
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = ctypes.c_void_p(-1).value
_IDLE_BYTES = 128 << 20
_PAGEMAP = "/proc/self/pagemap"
_ENTRY_BYTES = 8
# proc_pid_pagemap(5): a page is there, in memory or in swap; it is the file's, and not a copy that a write made.
_PRESENT = np.uint64(0b11 << 62)
_OF_FILE = np.uint64(1 << 61)


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


class _Mapping:
    """A whole segment, mapped so that writes to it stay this process's own."""

    __slots__ = ("address", "name", "size_bytes")

    def __init__(self, directory: Path, name: str) -> None:
        descriptor, self.size_bytes = _open_foreign(directory, name)
        self.name = name
        try:
            if self.size_bytes == 0:
                raise SegmentError("Expected a segment with bytes, got an empty one")
            protection = mmap.PROT_READ | mmap.PROT_WRITE
            address = _LIBC.mmap(None, self.size_bytes, protection, mmap.MAP_PRIVATE, descriptor, 0)
        finally:
            os.close(descriptor)
        if address == _MAP_FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self.address: int = address

    def check(self, offset_bytes: int, length_bytes: int, generation: int) -> None:
        """Raise SegmentError where the segment is in another use, or ends before the bytes do."""
        _check_range(offset_bytes, length_bytes, self.size_bytes)
        expected = segment_header(generation)
        _check_range(0, len(expected), self.size_bytes)
        if ctypes.string_at(self.address, len(expected)) != expected:
            raise SegmentError(f"Expected a segment in use {generation}, got one in another")

    def is_untouched(self) -> bool:
        """Return whether all of it shows what the server writes. False where that cannot be known."""
        first = self.address // mmap.PAGESIZE * _ENTRY_BYTES
        entries = bytearray(-(-self.size_bytes // mmap.PAGESIZE) * _ENTRY_BYTES)
        try:
            # Opened each time: after a fork it would be the parent's.
            descriptor = os.open(_PAGEMAP, os.O_RDONLY | os.O_CLOEXEC)
            try:
                count = os.preadv(descriptor, [entries], first)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        pages = np.frombuffer(entries, np.uint64)
        return count == len(entries) and not bool(((pages & _PRESENT != 0) & (pages & _OF_FILE == 0)).any())

    def close(self) -> None:
        """Unmap it. Nothing may refer to it."""
        _LIBC.munmap(self.address, self.size_bytes)


class SegmentMappings:
    """The segments of one stream's server that this process has mapped.

    Arrays end in any thread and at any moment, inside the garbage collector if it so happens: what follows from that
    takes no lock, and each step on the idle ones is a single one of the interpreter's.
    """

    def __init__(self, directory: Path, idle_bytes: int = _IDLE_BYTES) -> None:
        """`idle_bytes` bounds what stays mapped without any array."""
        self._directory = directory
        self._idle_limit_bytes = idle_bytes
        self._idle: OrderedDict[str, _Mapping] = OrderedDict()

    def map_bytes(self, name: str, offset_bytes: int, length_bytes: int, generation: int) -> MappedBytes:
        """Map bytes of a server's segment, so that writes to them stay this process's own.

        Raises:
            SegmentError: the name is no segment's, or the segment is missing, in another use, or ends before the bytes
                do.
            OSError: this process cannot map any more.
        """
        mapping = self._idle.pop(name, None) or _Mapping(self._directory, name)
        try:
            mapping.check(offset_bytes, length_bytes, generation)
        except BaseException:
            mapping.close()
            raise
        memory = MappedBytes(mapping.address + offset_bytes, length_bytes)
        weakref.finalize(memory, self._take_back, mapping).atexit = False
        return memory

    def close(self) -> None:
        """Keep nothing from now on. What arrays lie over stays mapped as long as they live."""
        self._idle_limit_bytes = 0
        self._drop_idle()

    def _take_back(self, mapping: _Mapping) -> None:
        # Nobody can write to it any more. Asked here, it keeps nobody waiting for a result.
        if not self._idle_limit_bytes or not mapping.is_untouched():
            mapping.close()
            return
        other = self._idle.pop(mapping.name, None)
        if other is not None:
            other.close()
        self._idle[mapping.name] = mapping
        self._drop_idle()

    def _drop_idle(self) -> None:
        """Unmap those that were not used for longest."""
        while sum(mapping.size_bytes for mapping in list(self._idle.values())) > self._idle_limit_bytes:
            try:
                _, mapping = self._idle.popitem(last=False)
            except KeyError:
                return  # another thread has dropped the last one
            mapping.close()
