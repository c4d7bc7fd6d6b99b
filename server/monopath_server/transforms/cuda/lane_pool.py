"""The lanes of one device, shared by all transforms on it, so that memory is bounded for the device as a whole."""

from __future__ import annotations

import contextlib

from monopath_server.transforms.cuda.device import TransformDevice
from monopath_server.transforms.cuda.lane import Lane

__all__ = ["LanePool", "lane_pool"]

LANE_COUNT = 2


class LanePool:
    """Lanes to be used in turn, by whoever holds the device's lock."""

    def __init__(self, device: TransformDevice, max_scratch_bytes: int) -> None:
        if max_scratch_bytes < 1:
            raise ValueError(f"Expected at least 1 byte of scratch, got {max_scratch_bytes}")
        # Each lane has a buffer for pixels and scratch and one for the output, and either may grow to this size.
        self.launch_bytes = max(max_scratch_bytes // (2 * LANE_COUNT), 1)
        """What the strips of one launch may take on the device, where they are more than one patch row."""
        self.lanes = tuple(Lane(device, self.launch_bytes) for _ in range(LANE_COUNT))
        self._device = device

    def release(self) -> None:
        """Drop what is under way and give all buffers back, those of other lanes too where one fails."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._device.release_unused)
            for lane in self.lanes:
                stack.callback(lane.release)


def lane_pool(device: TransformDevice, max_scratch_bytes: int) -> LanePool:
    """Return the device's lanes for a bound: the same ones for every transform that has the same bound."""
    with device.lock:
        pool = device.lane_pools.get(max_scratch_bytes)
        if pool is None:
            pool = device.lane_pools[max_scratch_bytes] = LanePool(device, max_scratch_bytes)
        return pool
