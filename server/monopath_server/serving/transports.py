"""Opens the transport that a stream asks for, or says why it cannot be had."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import assert_never

from google.protobuf import duration_pb2

from monopath.v1 import event_pb2, location_pb2
from monopath_server.delivery.deliveries import Delivery, InlineDelivery, SegmentDelivery
from monopath_server.delivery.device_delivery import DeviceDelivery, check_client
from monopath_server.delivery.leases import Leases
from monopath_server.delivery.shared_memory import SharedMemory
from monopath_server.delivery.sweeper import Sweeper
from monopath_server.delivery.uploads import Uploads
from monopath_server.engine.engines import Engines
from monopath_server.faults import StreamFault, StreamReason
from monopath_server.serving.configs import CudaIpc, Inline, OutputSettings, SharedMemorySegments
from monopath_server.settings import Settings

__all__ = ["OpenedTransport", "Transports"]


@dataclass(frozen=True, slots=True)
class OpenedTransport:
    """How one stream's results travel."""

    delivery: Delivery
    uploads: Uploads | None
    offer: event_pb2.SharedMemoryOffer | event_pb2.CudaIpcOffer | None


class Transports:
    """The transports of one server. Used on the event loop only."""

    def __init__(self, settings: Settings, engines: Engines) -> None:
        self._settings = settings
        self._engines = engines
        self._sweeper = Sweeper(engines.workers)

    async def open(self, output: OutputSettings, *, device_uuid: str) -> OpenedTransport:
        """Open a transport. `device_uuid` is the GPU that makes the features; empty where none does.

        Raises:
            StreamFault: TRANSPORT_UNAVAILABLE, with the reason.
        """
        transport = output.transport
        match transport:
            case Inline():
                return OpenedTransport(InlineDelivery(self._engines.buffers, output.chunk_bytes), None, None)
            case SharedMemorySegments():
                return await self._shared_memory(transport, output.chunk_bytes)
            case CudaIpc():
                return await self._cuda_ipc(transport, output.chunk_bytes, device_uuid)
            case _:
                assert_never(transport)

    async def _shared_memory(self, transport: SharedMemorySegments, chunk_bytes: int) -> OpenedTransport:
        memory, engines = self._engines.shared_memory, self._engines
        if memory is None:
            raise _unavailable(f"shared_memory: {engines.shared_memory_missing}")
        await asyncio.to_thread(memory.check_client, transport.probe)
        delivery = SegmentDelivery(
            memory.pool,
            engines.buffers,
            engines.workers,
            self._leases(),
            chunk_bytes=chunk_bytes,
            on_moved=self._engines.move_cached,
            # A client that died left segments of its own.
            on_close=lambda: self._sweeper.sweep_soon(memory),
        )
        settings = self._settings
        uploads = Uploads(memory.directory, settings.image_limits.max_encoded_bytes, settings.max_feature_bytes)
        return OpenedTransport(delivery, uploads, self._offer(memory))

    async def _cuda_ipc(self, transport: CudaIpc, chunk_bytes: int, device_uuid: str) -> OpenedTransport:
        pool = await self._engines.device_memory(device_uuid)
        reason = check_client(transport.boot_id, transport.pid_namespace, transport.device_uuids, device_uuid)
        if reason:
            raise _unavailable(f"cuda_ipc: {reason}")
        delivery = DeviceDelivery(pool, self._engines.buffers, self._leases(), chunk_bytes=chunk_bytes)
        offer = event_pb2.CudaIpcOffer(
            probe=location_pb2.CudaIpcHandle(**asdict(pool.probe.part)),
            nonce=pool.probe.nonce,
            lease_timeout=self._lease_timeout(),
        )
        return OpenedTransport(delivery, None, offer)

    def _leases(self) -> Leases:
        engines = self._engines
        return Leases(self._settings.lease_timeout_seconds, engines.count_lease, engines.count_lease_timeout)

    def _lease_timeout(self) -> duration_pb2.Duration:
        timeout = duration_pb2.Duration()
        timeout.FromNanoseconds(round(self._settings.lease_timeout_seconds * 1e9))
        return timeout

    def _offer(self, memory: SharedMemory) -> event_pb2.SharedMemoryOffer:
        return event_pb2.SharedMemoryOffer(
            probe=location_pb2.SharedMemoryProbe(name=memory.probe.name, nonce=memory.probe.nonce),
            lease_timeout=self._lease_timeout(),
        )


def _unavailable(message: str) -> StreamFault:
    return StreamFault(StreamReason.TRANSPORT_UNAVAILABLE, message)
