"""DEFERRED_CPU: images decoded and transformed on the server's CPU."""

from __future__ import annotations

import time

from monopath_server.engine.device_rows import Place, take_host_rows
from monopath_server.engine.images import ImagePlanner, PlannedImage, decode_planned
from monopath_server.engine.items import Features, Route, Timings
from monopath_server.engine.resources import Resources
from monopath_server.engine.rows import Holding
from monopath_server.engine.workers import CancelToken
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType
from monopath_server.transforms.cpu.transform import CpuTransform

__all__ = ["HostEngine"]


class HostEngine(ImagePlanner):
    """Turns images into features with one config and one element type. Shared by all streams that agree in both."""

    device = "cpu"

    def __init__(self, config: ProcessorConfig, element_type: ElementType, resources: Resources) -> None:
        super().__init__(config, element_type, resources)
        self._transform = CpuTransform(config, element_type)

    async def features(self, planned: PlannedImage, token: CancelToken, place: Place) -> Features:
        """Decode and transform in a worker, into memory of `place`. Raises `ItemFault`."""
        queued_ns = time.perf_counter_ns()
        return await self._resources.workers.run(
            lambda: self._make(planned, token, place, queued_ns),
            token,
            lambda features: features.holding.release(),
            cost=planned.cost,
        )

    def _make(self, planned: PlannedImage, token: CancelToken, place: Place, queued_ns: int) -> Features:
        started_ns = time.perf_counter_ns()
        decoded = decode_planned(planned, self._config, token, self._resources.buffers, self._resources.limits)
        decoded_ns = time.perf_counter_ns()
        try:
            rows = take_host_rows(place, planned.feature_bytes)
            try:
                self._transform.rows_into(decoded.prepared, planned.plan, rows.array)
            except BaseException:
                rows.release()
                raise
        finally:
            decoded.release()
        return Features(
            holding=Holding(rows),
            plan=planned.plan,
            provenance=self._provenance(decoded, Route.HOST),
            timings=Timings(
                planning_ns=planned.planning_ns,
                queued_ns=started_ns - queued_ns,
                decoding_ns=decoded.decoding_ns,
                transforming_ns=time.perf_counter_ns() - decoded_ns,
            ),
        )
