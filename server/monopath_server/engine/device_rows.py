"""Features that stay in the memory of a GPU, and places that may be there."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from monopath_server.engine.rows import HostPlace, HostRows

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceRows", "FallbackPlace", "Place", "take_host_rows"]

RowsT = TypeVar("RowsT")


class DeviceRows(abc.ABC):
    """Features that the device writes and the CPU never sees."""

    size_bytes: int

    @property
    @abc.abstractmethod
    def tensor(self) -> torch.Tensor:
        """The memory, uint8 [size_bytes]. For the device's thread only. Raises `RuntimeError` after `release`."""

    @abc.abstractmethod
    def mark_written(self, stream_handle: int) -> None:
        """What is queued on a stream of the device now is all that the rows' readers have to wait for."""

    @abc.abstractmethod
    def release(self) -> None:
        """Give the memory back. Calling it again does nothing."""


class Place(Protocol):
    """Where the features of a stream are to be written: a `HostPlace`, or the memory of the device that makes them."""

    def take(self, size_bytes: int) -> DeviceRows | HostRows:
        """Memory with unspecified content. Safe to call from every thread; not for the event loop."""


class FallbackPlace(Generic[RowsT]):
    """A pool that may be full, and where memory is taken then."""

    def __init__(self, take: Callable[[int], RowsT | None], fallback: HostPlace) -> None:
        self._take = take
        self._fallback = fallback

    def take(self, size_bytes: int) -> RowsT | HostRows:
        """Memory with unspecified content."""
        rows = self._take(size_bytes)
        return self._fallback.take(size_bytes) if rows is None else rows


def take_host_rows(place: Place, size_bytes: int) -> HostRows:
    """Memory for what the CPU makes. Raises TypeError for the place of a device: no opening gives the CPU one."""
    rows = place.take(size_bytes)
    if not isinstance(rows, HostRows):
        rows.release()
        raise TypeError(f"Expected a place of the host, got one that gives {type(rows).__name__}")
    return rows
