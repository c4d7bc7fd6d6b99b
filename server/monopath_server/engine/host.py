"""DEFERRED_CPU: images decoded and transformed on the server's CPU."""

from __future__ import annotations

import time

from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.images import PlannedImage, decode_planned, plan_item
from monopath_server.engine.items import Features, ImageItem, Provenance, Route, Timings
from monopath_server.engine.workers import CancelToken, Workers
from monopath_server.media.limits import ImageLimits
from monopath_server.media.prepare import ResizeRoute
from monopath_server.processors.digest import config_digest
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import ElementType
from monopath_server.transforms.cpu.transform import CpuTransform

__all__ = ["HostEngine"]


class HostEngine:
    """Turns images into features with one config and one element type. Shared by all streams that agree in both."""

    device = "cpu"

    def __init__(
        self,
        config: KimiConfig,
        element_type: ElementType,
        *,
        workers: Workers,
        buffers: BufferPool,
        limits: ImageLimits,
        max_feature_bytes: int,
    ) -> None:
        self._config = config
        self._config_sha256 = config_digest(config)
        self._element_type = element_type
        self._workers = workers
        self._buffers = buffers
        self._limits = limits
        self._max_feature_bytes = max_feature_bytes
        self._transform = CpuTransform(config, element_type)

    async def plan(self, item: ImageItem) -> PlannedImage:
        """Plan from the header, before any pixel is decoded. Raises `ItemFault`."""
        return await self._workers.plan(
            lambda: plan_item(item, self._config, self._element_type, self._limits, self._max_feature_bytes)
        )

    async def features(self, planned: PlannedImage, token: CancelToken) -> Features:
        """Decode and transform in a worker. Raises `ItemFault`."""
        queued_ns = time.perf_counter_ns()
        return await self._workers.run(
            lambda: self._make(planned, token, queued_ns),
            token,
            lambda features: features.buffer.release(),
            cost=planned.cost,
        )

    def _make(self, planned: PlannedImage, token: CancelToken, queued_ns: int) -> Features:
        started_ns = time.perf_counter_ns()
        decoded = decode_planned(planned, self._config, token)
        decoded_ns = time.perf_counter_ns()
        buffer = self._buffers.take(planned.feature_bytes)
        try:
            self._transform.rows_into(decoded.prepared, planned.plan, buffer.array)
        except BaseException:
            buffer.release()
            raise
        kernel_made_it = decoded.prepared.route is ResizeRoute.KERNEL
        return Features(
            buffer=buffer,
            provenance=Provenance(
                config_sha256=self._config_sha256,
                content_sha256=decoded.content_sha256,
                resample_kernel=self._config.resample_kernel,
                route=Route.HOST if kernel_made_it else Route.HOST_PILLOW,
            ),
            timings=Timings(
                planning_ns=planned.planning_ns,
                queued_ns=started_ns - queued_ns,
                decoding_ns=decoded.decoding_ns,
                transforming_ns=time.perf_counter_ns() - decoded_ns,
            ),
        )
