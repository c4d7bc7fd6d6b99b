"""Features that stay in the memory of a GPU, and places that may be there."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Protocol

from monopath_server.engine.rows import HostRows

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceRows", "Place", "take_host_rows"]


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


def take_host_rows(place: Place, size_bytes: int) -> HostRows:
    """Memory for what the CPU makes. Raises TypeError for the place of a device: no opening gives the CPU one."""
    rows = place.take(size_bytes)
    if not isinstance(rows, HostRows):
        rows.release()
        raise TypeError(f"Expected a place of the host, got one that gives {type(rows).__name__}")
    return rows
