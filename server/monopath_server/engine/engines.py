"""Every engine of a server, made once for each config and element type and shared by all streams that agree in both."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.device import DeviceEngine
from monopath_server.engine.devices import DeviceInfo, Devices
from monopath_server.engine.host import HostEngine
from monopath_server.engine.local import LocalEngine
from monopath_server.engine.work import ImageEngine
from monopath_server.engine.workers import Workers
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import ElementType
from monopath_server.settings import Settings
from monopath_server.transforms.self_check import check_arithmetic

__all__ = ["Engines"]

KEPT_ENGINES = 64
EngineT = TypeVar("EngineT")
KeyT = tuple[KimiConfig, ElementType]


class _Recent(Generic[EngineT]):
    """The engines last used, so that clients with ever new configs cannot fill the memory."""

    def __init__(self) -> None:
        self._engines: OrderedDict[KeyT, EngineT] = OrderedDict()

    async def get(self, key: KeyT, make: Callable[[], EngineT], workers: Workers) -> EngineT:
        """The engine of a key; made in a worker where there is none, since tables take milliseconds."""
        engine = self._engines.pop(key, None)
        if engine is None:
            engine = await workers.plan(make)
        self._engines[key] = engine
        while len(self._engines) > KEPT_ENGINES:
            self._engines.popitem(last=False)
        return engine


class Engines:
    """Makes and keeps the engines of the three paths. Used on the event loop only."""

    def __init__(self, settings: Settings, on_health: Callable[[bool], None] | None = None) -> None:
        """`on_health` is told, in any thread, when workers were found dead and when they run again."""
        self._settings = settings
        self._workers = Workers(settings.worker_count, on_health=on_health)
        self.buffers = BufferPool(settings.idle_buffer_bytes)
        """Where all features and received bytes live."""
        self._devices = Devices(settings, on_health)
        self._hosts = _Recent[HostEngine]()
        self._locals = _Recent[LocalEngine]()

    async def host(self, config: KimiConfig, element_type: ElementType) -> HostEngine:
        """The engine of DEFERRED_CPU."""
        return await self._hosts.get(
            (config, element_type),
            lambda: HostEngine(
                config,
                element_type,
                workers=self._workers,
                buffers=self.buffers,
                limits=self._settings.image_limits,
                max_feature_bytes=self._settings.max_feature_bytes,
            ),
            self._workers,
        )

    async def local(self, config: KimiConfig, element_type: ElementType) -> LocalEngine:
        """The engine of LOCAL."""
        return await self._locals.get(
            (config, element_type),
            lambda: LocalEngine(
                config,
                element_type,
                workers=self._workers,
                buffers=self.buffers,
                max_feature_bytes=self._settings.max_feature_bytes,
            ),
            self._workers,
        )

    async def device(self, config: KimiConfig, element_type: ElementType, device_uuid: str) -> ImageEngine:
        """The engine of DEFERRED_CUDA.

        Raises:
            StreamFault: DEVICE_UNAVAILABLE, with what is missing.
        """
        info, batcher = await self._devices.batcher(config, element_type, device_uuid)
        return DeviceEngine(
            config,
            element_type,
            device=info.id,
            batcher=batcher,
            workers=self._workers,
            buffers=self.buffers,
            limits=self._settings.image_limits,
            max_feature_bytes=self._settings.max_feature_bytes,
        )

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
        await asyncio.to_thread(check_arithmetic)
        await self._devices.warm_up()

    def close(self) -> None:
        """Stop all threads."""
        self._workers.close()
        self._devices.close()
