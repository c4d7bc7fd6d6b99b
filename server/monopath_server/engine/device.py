"""DEFERRED_CUDA: images decoded on the host and transformed on a GPU."""

from __future__ import annotations

import time

from monopath_server.engine.batcher import Batcher
from monopath_server.engine.device_rows import DeviceRows, Place
from monopath_server.engine.images import DecodedImage, ImagePlanner, PlannedImage, decode_planned
from monopath_server.engine.items import Features, Route, Timings
from monopath_server.engine.resources import Resources
from monopath_server.engine.rows import Holding, HostRows
from monopath_server.engine.workers import CancelToken
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType

__all__ = ["DeviceEngine"]


class DeviceEngine(ImagePlanner):
    """Turns images into features on one device, with one config and one element type."""

    def __init__(
        self, config: ProcessorConfig, element_type: ElementType, resources: Resources, *, device: str, batcher: Batcher
    ) -> None:
        super().__init__(config, element_type, resources)
        self.device = device
        self._batcher = batcher

    async def features(self, planned: PlannedImage, token: CancelToken, place: Place) -> Features:
        """Decode in a worker, transform on the device, into memory of `place`. Raises `ItemFault`.

        Rows that stay on the device are complete on return, so that nobody is told of them where a kernel failed.
        """
        since_ns = time.perf_counter_ns()
        with self._batcher.coming():
            decoded, rows = await self._resources.workers.run(
                lambda: self._decode(planned, token, place), token, _discard, cost=planned.cost
            )
        waited_ns = time.perf_counter_ns() - since_ns - decoded.decoding_ns
        try:
            times = await self._batcher.transform(decoded.prepared, planned.plan, rows)
        except BaseException:
            rows.release()
            raise
        finally:
            decoded.release()
        return Features(
            holding=Holding(rows),
            plan=planned.plan,
            provenance=self._provenance(decoded, Route.DEVICE),
            timings=Timings(
                planning_ns=planned.planning_ns,
                queued_ns=waited_ns + times.queued_ns,
                decoding_ns=decoded.decoding_ns,
                transforming_ns=times.transforming_ns,
            ),
        )

    def _decode(
        self, planned: PlannedImage, token: CancelToken, place: Place
    ) -> tuple[DecodedImage, HostRows | DeviceRows]:
        """Decode, and take memory while in a worker: it can be new, which takes the driver or the kernel a while."""
        decoded = decode_planned(planned, self._config, token, self._resources.buffers, self._resources.limits)
        try:
            return decoded, place.take(planned.feature_bytes)
        except BaseException:
            decoded.release()
            raise


def _discard(made: tuple[DecodedImage, HostRows | DeviceRows]) -> None:
    decoded, rows = made
    decoded.release()
    rows.release()
