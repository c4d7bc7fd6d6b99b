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
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType
from monopath_server.settings import DeviceMode, Settings

if TYPE_CHECKING:
    # torch and Triton are imported only where a device is used: a server without one never touches a GPU.
    from monopath.cuda_driver import CudaDriver
    from monopath_server.delivery.device_memory import DeviceMemoryPool
    from monopath_server.transforms.cuda.device import TransformDevice
    from monopath_server.transforms.cuda.transform import CudaTransform

__all__ = ["DeviceInfo", "Devices"]

KEPT_TRANSFORMS = 16
MIB = 1024 * 1024
SHARED_BYTES = 1024 * MIB
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

    def __init__(
        self,
        settings: Settings,
        on_health: Callable[[bool], None] | None = None,
        *,
        max_shared_bytes: int = SHARED_BYTES,
        make_driver: Callable[[], CudaDriver] | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        """Find the devices.

        Args:
            settings: The server's.
            on_health: Told, in any thread, when a device's thread was found dead and when it runs again.
            max_shared_bytes: Memory of each device for features that stay there; 0: none.
            make_driver: Makes what stands for the driver in tests, for the interpreter too.
            on_batch: Told how many images a device takes up together.

        Raises:
            RuntimeError: no device where one is required, with what is missing.
        """
        self._settings = settings
        self._on_health = on_health
        self._max_shared_bytes = max_shared_bytes
        self._make_driver = make_driver
        self._on_batch = on_batch
        self._slots: dict[str, _Slot] = {}
        self._missing: list[str] = []
        match settings.cuda:
            case DeviceMode.OFF:
                self._missing.append("CUDA is switched off in the server's settings")
            case DeviceMode.INTERPRETER:
                self._add(DeviceInfo("interpreter", "Triton's interpreter", 0), None)
            case DeviceMode.AUTO:
                self._find()
            case DeviceMode.REQUIRED:
                self._find()
                if not self._slots:
                    raise RuntimeError(f"Expected a CUDA device, got none: {self.missing}")

    @property
    def missing(self) -> str:
        """Why there is no device; empty where there is one."""
        return "" if self._slots else "; ".join(self._missing)

    @property
    def infos(self) -> tuple[DeviceInfo, ...]:
        """All devices."""
        return tuple(slot.info for slot in self._slots.values())

    async def batcher(
        self, config: ProcessorConfig, element_type: ElementType, device_id: str
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

    @property
    def waiting_count(self) -> int:
        """Images that no device has taken up yet. Safe to read in every thread."""
        return sum(slot.waiting_count for slot in tuple(self._slots.values()))

    @property
    def memory_pools(self) -> dict[str, DeviceMemoryPool]:
        """The memory of devices that clients have asked for, by the device's id. Safe to read in every thread."""
        slots = tuple(self._slots.values())
        return {slot.info.id: slot.made_memory for slot in slots if slot.made_memory is not None}

    @property
    def memory_missing(self) -> str:
        """Why no device can share its memory with clients; empty where one may."""
        if not self._slots:
            return self.missing
        if not self._max_shared_bytes:
            return "sharing a device's memory is switched off in the server's settings"
        return "" if any(slot.can_share for slot in self._slots.values()) else "there is no device but the interpreter"

    async def memory(self, device_id: str) -> DeviceMemoryPool:
        """Memory of a device that clients of this host can open; made when it is first asked for.

        Raises:
            StreamFault: TRANSPORT_UNAVAILABLE, with the reason.
        """
        slot = self._slots.get(device_id)
        if slot is None or self.memory_missing:
            reason = self.memory_missing or f"{device_id or 'the CPU'} is no CUDA device of the server"
            raise StreamFault(
                StreamReason.TRANSPORT_UNAVAILABLE,
                f"cuda_ipc: expected a device that shares memory, got none: {reason}",
            )
        try:
            return await slot.memory(self._max_shared_bytes)
        except Exception as error:
            logger.warning("The device %s cannot share its memory", slot.info.id, exc_info=error)
            raise StreamFault(
                StreamReason.TRANSPORT_UNAVAILABLE,
                f"cuda_ipc: expected a device that shares memory, got an error of {slot.info.id} (in the server's log)",
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
            slot.close()

    def _find(self) -> None:
        from monopath_server.transforms.cuda.probe import probe_cuda

        probe = probe_cuda()
        if not probe.available:
            self._missing.extend(probe.missing)
            return
        for found in probe.devices:
            self._add(DeviceInfo(found.uuid, found.name, found.memory_bytes), found.index)

    def _add(self, info: DeviceInfo, index: int | None) -> None:
        self._slots[info.id] = _Slot(info, index, self._settings, self._on_health, self._make_driver, self._on_batch)


class _Slot:
    """One device: its thread, and the transforms last used on it."""

    def __init__(
        self,
        info: DeviceInfo,
        index: int | None,
        settings: Settings,
        on_health: Callable[[bool], None] | None,
        make_driver: Callable[[], CudaDriver] | None,
        on_batch: Callable[[int], None] | None,
    ) -> None:
        self.info = info
        self.executor = RestartingExecutor(
            lambda: ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"monopath-{info.id}"), on_health
        )
        self._index = index
        self._settings = settings
        self._make_driver = make_driver
        self._on_batch = on_batch
        self._device: TransformDevice | None = None
        self._memory: DeviceMemoryPool | None = None
        self._batchers: OrderedDict[tuple[ProcessorConfig, ElementType], Batcher] = OrderedDict()
        self._making = asyncio.Lock()

    @property
    def is_real(self) -> bool:
        """A GPU, not the interpreter."""
        return self._index is not None

    @property
    def waiting_count(self) -> int:
        """Images that the device has not taken up yet."""
        return sum(batcher.waiting_count for batcher in tuple(self._batchers.values()))

    @property
    def made_memory(self) -> DeviceMemoryPool | None:
        """Memory for clients; None as long as no client has asked for it."""
        return self._memory

    @property
    def can_share(self) -> bool:
        """Other processes can open its memory, if its driver agrees."""
        return self.is_real or self._make_driver is not None

    async def memory(self, max_bytes: int) -> DeviceMemoryPool:
        """The memory that the device shares, made where there is none. Raises what the driver raises."""
        async with self._making:
            if self._memory is None:
                self._memory = await asyncio.wrap_future(self.executor.submit(lambda: self._make_memory(max_bytes)))
            return self._memory

    def close(self) -> None:
        """Stop the thread. Memory that clients may still read stays until the process ends."""
        self.executor.close()
        if self._memory is None:
            return
        try:
            self._memory.trim()
        except Exception as error:
            logger.warning("The device %s does not take its memory back", self.info.id, exc_info=error)

    async def batcher(self, config: ProcessorConfig, element_type: ElementType) -> Batcher:
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
                    on_batch=self._on_batch,
                )
            self._batchers[key] = batcher
            while len(self._batchers) > KEPT_TRANSFORMS:
                self._batchers.popitem(last=False)
            return batcher

    def _make(self, config: ProcessorConfig, element_type: ElementType) -> CudaTransform:
        from monopath_server.transforms.cuda.transform import CudaTransform

        transform = CudaTransform(
            config, element_type, self._transform_device(), max_scratch_bytes=self._settings.max_device_scratch_bytes
        )
        if self._index is not None:
            transform.warm_up()  # compiles, or loads, every kernel: no item pays for it
        return transform

    def _make_memory(self, max_bytes: int) -> DeviceMemoryPool:
        from monopath.cuda_driver import LibCuda
        from monopath_server.delivery.device_memory import DeviceMemoryPool

        device = self._transform_device()
        driver = (self._make_driver or LibCuda)()
        pool = DeviceMemoryPool(driver, driver.device_uuids().index(self.info.id), self.info.id, max_bytes)
        device.reserves.append(pool.trim)
        return pool

    def _transform_device(self) -> TransformDevice:
        from monopath_server.transforms.cuda.device import CudaDevice, InterpreterDevice

        if self._device is None:
            self._device = InterpreterDevice() if self._index is None else CudaDevice(self._index)
        return self._device
