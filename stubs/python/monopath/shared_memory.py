"""Shared memory, as client and server of one host use it: files in a directory such as /dev/shm.

Both sides make segments of their own and read the other's. The rules, which hold for clients in every language:

* A process that makes segments has an owner's file `monopath-<owner>` with a lock (`flock`) for as long as it lives;
  its segments are named `monopath-<owner>-<segment>`, both parts being 128 random bits in hexadecimal. The lock dies
  with the process, in whatever way, and says more than a process id would: it holds across PID namespaces, and is never
  reused. So anybody may sweep what owners without a lock left behind.
* A segment never shrinks, so that whoever has mapped it can always read it, unlinked or not.
* Who reads does not trust: names are checked, links are not followed, and only regular files are read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import re
import secrets
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "DEFAULT_DIRECTORY",
    "HEADER_BYTES",
    "SegmentError",
    "SegmentOwner",
    "SharedMemoryFull",
    "WritableSegment",
    "check_segment",
    "load_segment",
    "read_segment",
    "segment_header",
    "sweep",
    "write_generation",
]

DEFAULT_DIRECTORY = Path("/dev/shm")  # noqa: S108 - where POSIX shared memory is on Linux
HEADER_BYTES = 4096
"""A server's segment begins with a page for its header, so that its data are aligned."""

_OWNER_NAME = re.compile(r"monopath-[0-9a-f]{32}")
_SEGMENT_NAME = re.compile(r"(monopath-[0-9a-f]{32})-[0-9a-f]{32}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EFBIG})
_OPEN_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC
# Python keeps a descriptor open for each mapping, which nothing here needs; later releases can do without.
_MAPPING_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class SharedMemoryFull(Exception):
    """There is no room for another segment: in the directory, or among the process's descriptors."""


class SegmentError(Exception):
    """A segment cannot be read. The text is fit for the other side: it names no path."""


class WritableSegment:
    """A segment of this process, mapped for writing."""

    __slots__ = ("_owner", "memory", "name", "size_bytes")

    def __init__(self, owner: SegmentOwner, name: str, memory: mmap.mmap, size_bytes: int) -> None:
        self._owner = owner
        self.name = name
        self.memory = memory
        """The whole segment. Lives as long as anything refers to it, unlinked or not."""
        self.size_bytes = size_bytes

    def unlink(self) -> None:
        """Take the segment's name away: nobody can open it any more. Calling it again does nothing."""
        self._owner._unlink(self.name)


class SegmentOwner:
    """What makes segments in a directory, and takes all of them away on `close`. Safe to use from every thread."""

    def __init__(self, directory: Path = DEFAULT_DIRECTORY) -> None:
        """Raises OSError where the directory cannot be used, SharedMemoryFull where it is full."""
        self.directory = directory
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self._name, self._descriptor = _make_owner(directory)
        self._process_id = os.getpid()

    def create(self, size_bytes: int) -> WritableSegment:
        """Make a segment, with all its memory in place: a write to it cannot fail later.

        Raises:
            SharedMemoryFull: there is no room for it.
            ValueError: after `close`.
        """
        name = f"{self._name}-{secrets.token_hex(16)}"
        path = self.directory / name
        with self._lock:
            if self._descriptor is None:
                raise ValueError("Expected an open owner of segments, got a closed one")
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o600)
            except OSError as error:
                raise _full(error) from error
            self._names.add(name)
        try:
            # Without it a full directory is noticed by SIGBUS, at the first write.
            os.posix_fallocate(descriptor, 0, size_bytes)
            memory = mmap.mmap(descriptor, size_bytes, **_MAPPING_OPTIONS)
        except OSError as error:
            self._unlink(name)
            raise _full(error) from error
        finally:
            os.close(descriptor)
        return WritableSegment(self, name, memory, size_bytes)

    def close(self) -> None:
        """Unlink all segments. Who has mapped one can still read it. Calling it again does nothing."""
        with self._lock:
            if self._descriptor is None or os.getpid() != self._process_id:
                return  # a forked child has no say over its parent's segments
            for name in self._names:
                _unlink_quietly(self.directory / name)
            self._names.clear()
            _unlink_quietly(self.directory / self._name)
            os.close(self._descriptor)
            self._descriptor = None

    def _unlink(self, name: str) -> None:
        with self._lock:
            if name in self._names:
                self._names.discard(name)
                _unlink_quietly(self.directory / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


def read_segment(directory: Path, name: str, offset_bytes: int, into: memoryview) -> None:
    """Copy bytes of a segment that another process made: it may change, and even shrink, at any time.

    Raises:
        SegmentError: the name is none of ours, there is no such segment, or it ends before the bytes do.
    """
    descriptor, size_bytes = _open_foreign(directory, name)
    try:
        _check_range(offset_bytes, len(into), size_bytes)
        read_bytes = 0
        while read_bytes < len(into):
            count = os.preadv(descriptor, [into[read_bytes:]], offset_bytes + read_bytes)
            if count == 0:
                raise SegmentError("Expected a segment that keeps its size, got one that shrank")
            read_bytes += count
    finally:
        os.close(descriptor)


def load_segment(directory: Path, name: str, offset_bytes: int, length_bytes: int) -> bytes:
    """Return a copy of bytes of a segment that another process made. Raises as `read_segment`."""
    descriptor, size_bytes = _open_foreign(directory, name)
    try:
        _check_range(offset_bytes, length_bytes, size_bytes)
        data = os.pread(descriptor, length_bytes, offset_bytes)
    finally:
        os.close(descriptor)
    if len(data) != length_bytes:
        raise SegmentError("Expected a segment that keeps its size, got one that shrank")
    return data


def check_segment(directory: Path, name: str, offset_bytes: int, length_bytes: int) -> None:
    """Raise SegmentError where `read_segment` would, without reading. Quick enough for an event loop."""
    descriptor, size_bytes = _open_foreign(directory, name)
    os.close(descriptor)
    _check_range(offset_bytes, length_bytes, size_bytes)


def segment_header(generation: int) -> bytes:
    """Return the first bytes of a server's segment that is in this use."""
    return b"monopath" + generation.to_bytes(8, "little")


def write_generation(memory: mmap.mmap, generation: int) -> None:
    """Begin a use of a server's segment."""
    header = segment_header(generation)
    memory[: len(header)] = header


def sweep(directory: Path) -> int:
    """Unlink what owners that are dead left behind, and return how many segments that were.

    Live owners' segments are never touched, whatever user, container or host they run on, as long as they share the
    directory's file system. What belongs to other users is left alone.
    """
    owned: dict[str, list[str]] = {}
    with contextlib.suppress(OSError):
        for entry in directory.iterdir():
            name = entry.name
            if _OWNER_NAME.fullmatch(name):
                owned.setdefault(name, [])
            elif match := _SEGMENT_NAME.fullmatch(name):
                owned.setdefault(match[1], []).append(name)
    return sum(_sweep_owner(directory, owner, names) for owner, names in owned.items())


def _sweep_owner(directory: Path, owner: str, segment_names: list[str]) -> int:
    try:
        descriptor = os.open(directory / owner, os.O_RDWR | os.O_NONBLOCK | _OPEN_FLAGS)
    except FileNotFoundError:
        # Its file goes last: what is left of such an owner was left by a sweep that was interrupted.
        return sum(_unlink_quietly(directory / name) for name in segment_names)
    except OSError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0
    else:
        count = sum(_unlink_quietly(directory / name) for name in segment_names)
        _unlink_quietly(directory / owner)
        return count
    finally:
        os.close(descriptor)


def _make_owner(directory: Path) -> tuple[str, int | None]:
    while True:
        name = f"monopath-{secrets.token_hex(16)}"
        path = directory / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o600)
        except OSError as error:
            raise _full(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return name, descriptor
        except OSError:
            pass  # a sweep came between the two: it found a file without a lock, and takes it away
        os.close(descriptor)


def _open_foreign(directory: Path, name: str) -> tuple[int, int]:
    if not _SEGMENT_NAME.fullmatch(name):
        raise SegmentError("Expected a name of the form monopath-<32 hex>-<32 hex>, got another")
    try:
        # Of a pipe even the opening would wait for its other end.
        descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NONBLOCK | _OPEN_FLAGS)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise SegmentError(f"Expected a segment that can be read, got none: {os.strerror(error.errno or 0)}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise SegmentError("Expected a segment, got something that is not a regular file")
    return descriptor, status.st_size


def _check_range(offset_bytes: int, length_bytes: int, size_bytes: int) -> None:
    if length_bytes < 1 or offset_bytes + length_bytes > size_bytes:
        raise SegmentError(
            f"Expected 1 byte or more within a segment of {size_bytes}, got {length_bytes} at offset {offset_bytes}"
        )


def _full(error: OSError) -> Exception:
    return SharedMemoryFull(os.strerror(error.errno or 0)) if error.errno in _FULL else error


def _unlink_quietly(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
