"""Memory that holds an image's features, wherever it is, and those who share it."""

from __future__ import annotations

import abc
import threading
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Holding", "HostPlace", "HostRows", "Rows"]


class Rows(Protocol):
    """Memory of one image's features. Given back once, after its last holder has let go."""

    size_bytes: int

    def release(self) -> None:
        """Give the memory back. Calling it again does nothing."""


class HostRows(abc.ABC):
    """Features that the CPU can read and write."""

    # Not a protocol: asking an object whether it keeps to one takes longer than a small image's delivery should.
    __slots__ = ()

    size_bytes: int

    @property
    @abc.abstractmethod
    def array(self) -> npt.NDArray[np.uint8]:
        """The memory, uint8 [size_bytes]."""

    @abc.abstractmethod
    def release(self) -> None:
        """Give the memory back. Calling it again does nothing."""


class HostPlace(Protocol):
    """Where the features of a stream are to be written: pooled memory, or shared memory."""

    def take(self, size_bytes: int) -> HostRows:
        """Memory with unspecified content. Safe to call from every thread."""


class _Count:
    """How many hold the same rows."""

    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value = 1


class Holding:
    """One holder's share of rows: an item on its way out, a lease, or the cache. Safe to use from every thread."""

    __slots__ = ("_count", "_rows")

    def __init__(self, rows: Rows) -> None:
        """The first holding, which owns `rows` from now on."""
        self._rows: Rows | None = rows
        self._count = _Count()

    @property
    def rows(self) -> Rows:
        """The memory. Raises `RuntimeError` after `release`."""
        if self._rows is None:
            raise RuntimeError("Expected held rows, got released ones")
        return self._rows

    @property
    def is_shared(self) -> bool:
        """Somebody else holds the rows as well."""
        return self._count.value > 1

    def share(self) -> Holding:
        """One more holding of the same rows. Their content must not change any more."""
        shared = Holding.__new__(Holding)
        with self._count.lock:
            shared._rows = self.rows
            shared._count = self._count
            self._count.value += 1
        return shared

    def release(self) -> None:
        """Let go; the last one gives the memory back. Calling it again does nothing."""
        with self._count.lock:
            rows, self._rows = self._rows, None
            if rows is None:
                return
            self._count.value -= 1
            is_last = self._count.value == 0
        if is_last:
            rows.release()
