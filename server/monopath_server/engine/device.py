"""DEFERRED_CUDA: images decoded on the host and transformed on a GPU."""

from __future__ import annotations

import time

from monopath_server.engine.batcher import Batcher
from monopath_server.engine.images import ImagePlanner, PlannedImage, decode_planned
from monopath_server.engine.items import Features, Route, Timings
from monopath_server.engine.resources import Resources
from monopath_server.engine.workers import CancelToken
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import ElementType

__all__ = ["DeviceEngine"]


class DeviceEngine(ImagePlanner):
    """Turns images into features on one device, with one config and one element type."""

    def __init__(
        self, config: KimiConfig, element_type: ElementType, resources: Resources, *, device: str, batcher: Batcher
    ) -> None:
        super().__init__(config, element_type, resources)
        self.device = device
        self._batcher = batcher

    async def features(self, planned: PlannedImage, token: CancelToken) -> Features:
        """Decode in a worker, transform on the device. Raises `ItemFault`."""
        since_ns = time.perf_counter_ns()
        with self._batcher.coming():
            decoded = await self._resources.workers.run(
                lambda: decode_planned(planned, self._config, token), token, lambda _: None, cost=planned.cost
            )
        waited_ns = time.perf_counter_ns() - since_ns - decoded.decoding_ns
        buffer = self._resources.buffers.take(planned.feature_bytes)
        try:
            times = await self._batcher.transform(decoded.prepared, planned.plan, buffer)
        except BaseException:
            buffer.release()
            raise
        return Features(
            buffer=buffer,
            provenance=self._provenance(decoded, Route.DEVICE),
            timings=Timings(
                planning_ns=planned.planning_ns,
                queued_ns=waited_ns + times.queued_ns,
                decoding_ns=decoded.decoding_ns,
                transforming_ns=times.transforming_ns,
            ),
        )
