"""Every engine of a server, made once for each config and element type and shared by all streams that agree in both."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from monopath_server.delivery.device_memory import DeviceMemoryPool
from monopath_server.delivery.segments import is_in_segment
from monopath_server.delivery.shared_memory import SharedMemory, open_shared_memory
from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.cache import FeatureCache
from monopath_server.engine.device import DeviceEngine
from monopath_server.engine.devices import DeviceInfo, Devices
from monopath_server.engine.host import HostEngine
from monopath_server.engine.local import LocalEngine
from monopath_server.engine.resources import Resources
from monopath_server.engine.rows import Holding, Rows
from monopath_server.engine.work import ImageEngine
from monopath_server.engine.workers import Workers
from monopath_server.observer import Observer
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType
from monopath_server.settings import Settings
from monopath_server.transforms.self_check import check_arithmetic

__all__ = ["Engines"]

KEPT_ENGINES = 64
EngineT = TypeVar("EngineT")


@functools.cache
def _check_arithmetic_once() -> None:
    """A process may start several servers, one after another; its arithmetic stays what it was found to be."""
    check_arithmetic()


class _Recent(Generic[EngineT]):
    """The engines last used, so that clients with ever new configs cannot fill the memory."""

    def __init__(
        self, make: Callable[[ProcessorConfig, ElementType, Resources], EngineT], resources: Resources
    ) -> None:
        self._make = make
        self._resources = resources
        self._engines: OrderedDict[tuple[ProcessorConfig, ElementType], EngineT] = OrderedDict()

    async def get(self, config: ProcessorConfig, element_type: ElementType) -> EngineT:
        """The engine of a config and an element type; made in a worker where there is none: tables take a while."""
        key = (config, element_type)
        engine = self._engines.pop(key, None)
        if engine is None:
            engine = await self._resources.workers.plan(lambda: self._make(config, element_type, self._resources))
        self._engines[key] = engine
        while len(self._engines) > KEPT_ENGINES:
            self._engines.popitem(last=False)
        return engine


class Engines:
    """Makes and keeps the engines of the three paths. Used on the event loop only."""

    def __init__(
        self, settings: Settings, on_health: Callable[[bool], None] | None = None, observer: Observer | None = None
    ) -> None:
        """`on_health` is told, in any thread, when workers were found dead and when they run again."""
        self._resources = Resources(
            workers=Workers(settings.worker_count, on_health=on_health),
            buffers=BufferPool(settings.idle_buffer_bytes),
            limits=settings.image_limits,
            max_feature_bytes=settings.max_feature_bytes,
        )
        self._settings = settings
        self._devices = Devices(
            settings,
            on_health,
            max_shared_bytes=settings.max_shared_device_bytes,
            on_batch=None if observer is None else observer.batch_formed,
        )
        self.cache = FeatureCache(settings.cache_bytes) if settings.cache_bytes else None
        """Features of images that may come again; None where none are kept."""
        self.shared_memory: SharedMemory | None = None
        """Shared memory with clients of this host, once it is warmed up; None where there is none."""
        self.shared_memory_missing = "the server is starting"
        """Why there is no shared memory; empty where there is."""
        self.lease_count = 0
        """Features that clients were told of and have not released."""
        self.leased_bytes = 0
        """Their bytes."""
        self.lease_timeout_count = 0
        """Leases that ran out."""
        self._hosts = _Recent(HostEngine, self._resources)
        self._locals = _Recent(LocalEngine, self._resources)

    @property
    def workers(self) -> Workers:
        """All threads but the devices' own."""
        return self._resources.workers

    @property
    def buffers(self) -> BufferPool:
        """Where all features and received bytes live."""
        return self._resources.buffers

    async def host(self, config: ProcessorConfig, element_type: ElementType) -> HostEngine:
        """The engine of DEFERRED_CPU."""
        return await self._hosts.get(config, element_type)

    async def local(self, config: ProcessorConfig, element_type: ElementType) -> LocalEngine:
        """The engine of LOCAL."""
        return await self._locals.get(config, element_type)

    async def device(self, config: ProcessorConfig, element_type: ElementType, device_uuid: str) -> ImageEngine:
        """The engine of DEFERRED_CUDA.

        Raises:
            StreamFault: DEVICE_UNAVAILABLE, with what is missing.
        """
        info, batcher = await self._devices.batcher(config, element_type, device_uuid)
        return DeviceEngine(config, element_type, self._resources, device=info.id, batcher=batcher)

    async def device_memory(self, device_uuid: str) -> DeviceMemoryPool:
        """Memory of a device that clients of this host can open.

        Raises:
            StreamFault: TRANSPORT_UNAVAILABLE, with the reason.
        """
        return await self._devices.memory(device_uuid)

    @property
    def device_memory_missing(self) -> str:
        """Why no device can share its memory with clients; empty where one may."""
        return self._devices.memory_missing

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        """The devices of DEFERRED_CUDA."""
        return self._devices.infos

    @property
    def device_missing(self) -> str:
        """Why DEFERRED_CUDA cannot be used; empty where it can."""
        return self._devices.missing

    async def warm_up(self) -> None:
        """Load the kernels and check the arithmetic of this installation, so that no request pays for it.

        Raises:
            RuntimeError: an arithmetic is not what it must be.
        """
        self.shared_memory, self.shared_memory_missing = await asyncio.to_thread(
            open_shared_memory,
            self._settings.shared_memory_directory,
            self._settings.max_shared_memory_bytes,
            self._evict_segments,
        )
        await asyncio.to_thread(_check_arithmetic_once)
        await self._devices.warm_up()

    async def close(self) -> None:
        """Stop all threads, and give all shared memory back."""
        if self.cache is not None:
            await self.cache.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._resources.workers.close()
        self._devices.close()
        if self.shared_memory is not None:
            self.shared_memory.close()

    def count_lease(self, change: int, change_bytes: int) -> None:
        """Leases began (1) or ended (-1)."""
        self.lease_count += change
        self.leased_bytes += change_bytes

    def count_lease_timeout(self) -> None:
        """A lease ran out."""
        self.lease_timeout_count += 1

    @property
    def waiting_count(self) -> int:
        """Jobs of items that wait for a worker or a device. Safe to read in every thread."""
        return self.workers.waiting_count + self._devices.waiting_count

    @property
    def device_memory_pools(self) -> dict[str, DeviceMemoryPool]:
        """The memory that devices share with clients, as far as one has asked for it. Safe to read in every thread."""
        return self._devices.memory_pools

    def move_cached(self, rows: Rows, moved: Holding) -> None:
        """Features that may be cached were copied into memory that clients can read where it is."""
        if self.cache is not None:
            self.cache.move(rows, moved)

    def _evict_segments(self, size_bytes: int) -> int:
        return 0 if self.cache is None else self.cache.evict(is_in_segment, size_bytes)
