"""DEFERRED_CUDA: images decoded on the host and transformed on a GPU."""

from __future__ import annotations

import time

from monopath_server.engine.batcher import Batcher
from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.images import DecodedImage, PlannedImage, decode_planned, plan_item
from monopath_server.engine.items import Features, ImageItem, Provenance, Route, Timings
from monopath_server.engine.workers import CancelToken, Workers
from monopath_server.media.limits import ImageLimits
from monopath_server.media.prepare import ResizeRoute
from monopath_server.processors.digest import config_digest
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import ElementType

__all__ = ["DeviceEngine"]


class DeviceEngine:
    """Turns images into features on one device, with one config and one element type."""

    def __init__(
        self,
        config: KimiConfig,
        element_type: ElementType,
        *,
        device: str,
        batcher: Batcher,
        workers: Workers,
        buffers: BufferPool,
        limits: ImageLimits,
        max_feature_bytes: int,
    ) -> None:
        self.device = device
        self._config = config
        self._config_sha256 = config_digest(config)
        self._element_type = element_type
        self._batcher = batcher
        self._workers = workers
        self._buffers = buffers
        self._limits = limits
        self._max_feature_bytes = max_feature_bytes

    async def plan(self, item: ImageItem) -> PlannedImage:
        """Plan from the header, before any pixel is decoded. Raises `ItemFault`."""
        return await self._workers.plan(
            lambda: plan_item(item, self._config, self._element_type, self._limits, self._max_feature_bytes)
        )

    async def features(self, planned: PlannedImage, token: CancelToken) -> Features:
        """Decode in a worker, transform on the device. Raises `ItemFault`."""
        since_ns = time.perf_counter_ns()
        with self._batcher.coming():
            decoded = await self._workers.run(
                lambda: decode_planned(planned, self._config, token), token, lambda _: None, cost=planned.cost
            )
        waited_ns = time.perf_counter_ns() - since_ns - decoded.decoding_ns
        buffer = self._buffers.take(planned.feature_bytes)
        try:
            times = await self._batcher.transform(decoded.prepared, planned.plan, buffer)
        except BaseException:
            buffer.release()
            raise
        return Features(
            buffer=buffer,
            provenance=self._provenance(decoded),
            timings=Timings(
                planning_ns=planned.planning_ns,
                queued_ns=waited_ns + times.queued_ns,
                decoding_ns=decoded.decoding_ns,
                transforming_ns=times.transforming_ns,
            ),
        )

    def _provenance(self, decoded: DecodedImage) -> Provenance:
        return Provenance(
            config_sha256=self._config_sha256,
            content_sha256=decoded.content_sha256,
            resample_kernel=self._config.resample_kernel,
            route=Route.DEVICE if decoded.prepared.route is ResizeRoute.KERNEL else Route.HOST_PILLOW,
        )
