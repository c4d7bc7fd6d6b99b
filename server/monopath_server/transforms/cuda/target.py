"""Where the rows of an image go: to the host, or to memory of the device."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["DeviceTarget", "Target"]


class DeviceTarget(Protocol):
    """Memory of the device, of somebody else, that takes the rows of one image."""

    size_bytes: int

    @property
    def tensor(self) -> torch.Tensor:
        """The memory, uint8 [size_bytes]."""

    def mark_written(self, stream_handle: int) -> None:
        """Called when all rows are there, with the driver's handle of a stream of the device."""


Target: TypeAlias = NDArray[np.uint8] | DeviceTarget
"""Memory of the host is uint8 [size_bytes]."""
