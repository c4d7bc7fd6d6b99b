"""The devices that DEFERRED_CUDA may use, each with one thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monopath_server.engine.batcher import Batcher
from monopath_server.engine.executors import RestartingExecutor
from monopath_server.faults import StreamFault, StreamReason
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import ElementType
from monopath_server.settings import DeviceMode, Settings

if TYPE_CHECKING:
    # torch and Triton are imported only where a device is used: a server without one never touches a GPU.
    from monopath_server.transforms.cuda.device import TransformDevice
    from monopath_server.transforms.cuda.transform import CudaTransform

__all__ = ["DeviceInfo", "Devices"]

KEPT_TRANSFORMS = 16
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device as clients see it."""

    id: str
    """UUID as the driver prints it; "interpreter" for Triton's interpreter."""
    name: str
    memory_bytes: int


class Devices:
    """Finds the devices once, and makes transforms on them as they are asked for. Used on the event loop only."""

    def __init__(self, settings: Settings, on_health: Callable[[bool], None] | None = None) -> None:
        self._settings = settings
        self._on_health = on_health
        self._slots: dict[str, _Slot] = {}
        self._missing: list[str] = []
        match settings.cuda:
            case DeviceMode.OFF:
                self._missing.append("CUDA is switched off in the server's settings")
            case DeviceMode.INTERPRETER:
                self._add(DeviceInfo("interpreter", "Triton's interpreter", 0), None)
            case DeviceMode.AUTO:
                self._find()

    @property
    def missing(self) -> str:
        """Why there is no device; empty where there is one."""
        return "" if self._slots else "; ".join(self._missing)

    @property
    def infos(self) -> tuple[DeviceInfo, ...]:
        """All devices."""
        return tuple(slot.info for slot in self._slots.values())

    async def batcher(
        self, config: KimiConfig, element_type: ElementType, device_id: str
    ) -> tuple[DeviceInfo, Batcher]:
        """The batcher of a transform on a device: the one asked for, or the first.

        Raises:
            StreamFault: DEVICE_UNAVAILABLE, with what is missing.
        """
        if not self._slots:
            raise StreamFault(StreamReason.DEVICE_UNAVAILABLE, f"Expected a CUDA device, got none: {self.missing}")
        slot = self._slots.get(device_id or next(iter(self._slots)))
        if slot is None:
            raise StreamFault(
                StreamReason.DEVICE_UNAVAILABLE,
                f"Expected one of the devices {', '.join(self._slots)}, got {device_id}",
            )
        try:
            return slot.info, await slot.batcher(config, element_type)
        except Exception as error:
            if "out of memory" not in str(error).lower():
                raise
            logger.warning("The device %s has no memory for another config", slot.info.id, exc_info=error)
            raise StreamFault(
                StreamReason.OVERLOADED, f"Expected memory on the device {slot.info.id} for another config, got none"
            ) from None

    async def warm_up(self) -> None:
        """Compile the kernels for the presets in bfloat16, what most clients ask for; others are made when asked for.

        A device that cannot be used is struck off with its reason: the server starts without it.
        """
        for slot in tuple(self._slots.values()):
            if not slot.is_real:
                continue
            try:
                for config in self._settings.presets.values():
                    await slot.batcher(config, ElementType.BFLOAT16)
            except Exception as error:
                logger.exception("The device %s cannot be used", slot.info.id)
                self._slots.pop(slot.info.id).executor.close()
                self._missing.append(
                    f"the device {slot.info.name} cannot be used ({type(error).__name__}; see the log)"
                )

    def close(self) -> None:
        """Stop the devices' threads."""
        for slot in self._slots.values():
            slot.executor.close()

    def _find(self) -> None:
        from monopath_server.transforms.cuda.probe import probe_cuda

        probe = probe_cuda()
        if not probe.available:
            self._missing.extend(probe.missing)
            return
        for found in probe.devices:
            self._add(DeviceInfo(found.uuid, found.name, found.memory_bytes), found.index)

    def _add(self, info: DeviceInfo, index: int | None) -> None:
        self._slots[info.id] = _Slot(info, index, self._settings, self._on_health)


class _Slot:
    """One device: its thread, and the transforms last used on it."""

    def __init__(
        self, info: DeviceInfo, index: int | None, settings: Settings, on_health: Callable[[bool], None] | None
    ) -> None:
        self.info = info
        self.executor = RestartingExecutor(
            lambda: ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"monopath-{info.id}"), on_health
        )
        self._index = index
        self._settings = settings
        self._device: TransformDevice | None = None
        self._batchers: OrderedDict[tuple[KimiConfig, ElementType], Batcher] = OrderedDict()
        self._making = asyncio.Lock()

    @property
    def is_real(self) -> bool:
        """A GPU, not the interpreter."""
        return self._index is not None

    async def batcher(self, config: KimiConfig, element_type: ElementType) -> Batcher:
        """The batcher of a config and an element type, made where there is none. Raises what the device raises."""
        key = (config, element_type)
        async with self._making:
            batcher = self._batchers.pop(key, None)
            if batcher is None:
                transform = await asyncio.wrap_future(self.executor.submit(lambda: self._make(*key)))
                batcher = Batcher(
                    transform.run_batch,
                    self.executor,
                    max_items=self._settings.max_batch_items,
                    max_patches=self._settings.max_batch_patches,
                    wait_us=self._settings.batch_wait_us,
                )
            self._batchers[key] = batcher
            while len(self._batchers) > KEPT_TRANSFORMS:
                self._batchers.popitem(last=False)
            return batcher

    def _make(self, config: KimiConfig, element_type: ElementType) -> CudaTransform:
        from monopath_server.transforms.cuda.device import CudaDevice, InterpreterDevice
        from monopath_server.transforms.cuda.transform import CudaTransform

        if self._device is None:
            self._device = InterpreterDevice() if self._index is None else CudaDevice(self._index)
        transform = CudaTransform(
            config, element_type, self._device, max_scratch_bytes=self._settings.max_device_scratch_bytes
        )
        if self._index is not None:
            transform.warm_up()  # compiles, or loads, every kernel: no item pays for it
        return transform
