"""Opens each path with its config: checks it, finds the engine, and says why where it cannot."""

from __future__ import annotations

from collections.abc import Callable

from monopath.v1 import config_pb2, deferred_cpu_pb2, deferred_cuda_pb2, local_pb2
from monopath_server.delivery.uploads import UploadedImageWork
from monopath_server.engine.engines import Engines
from monopath_server.engine.local import LocalWork
from monopath_server.engine.work import ImageEngine, ImageWork, ItemWork
from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.serving.configs import (
    CudaIpc,
    OutputSettings,
    ResolvedProcessor,
    output_settings,
    resolve_processor,
)
from monopath_server.serving.requests import Config, ItemHeader, image_item, local_item
from monopath_server.serving.session import OpenedPath
from monopath_server.serving.transports import OpenedTransport, Transports
from monopath_server.settings import Settings

__all__ = ["Openings"]

PREFIX = "config"


class Openings:
    """The openers of the three paths over one set of engines."""

    def __init__(self, settings: Settings, engines: Engines) -> None:
        self._settings = settings
        self._engines = engines
        self._transports = Transports(settings, engines)

    async def local(self, config: Config) -> OpenedPath:
        """Open `StreamLocal`."""
        if not isinstance(config, local_pb2.LocalConfig):
            raise TypeError(f"Expected a LocalConfig, got {type(config).__name__}")
        processor, output = self._resolve(config.processor, config.output)
        engine = await self._engines.local(processor.config, output.element_type)
        transport = await self._transports.open(output, device_uuid="")

        def begin(header: ItemHeader) -> ItemWork:
            if not isinstance(header, local_pb2.LocalItem):
                raise TypeError(f"Expected a LocalItem, got {type(header).__name__}")
            return LocalWork(engine, local_item(header))

        return _opened(processor, output, engine.device, begin, transport)

    async def deferred_cuda(self, config: Config) -> OpenedPath:
        """Open `StreamDeferredCuda`. Refused where there is no device: a path never becomes another one."""
        if not isinstance(config, deferred_cuda_pb2.DeferredCudaConfig):
            raise TypeError(f"Expected a DeferredCudaConfig, got {type(config).__name__}")
        processor, output = self._resolve(config.processor, config.output)
        engine = await self._engines.device(processor.config, output.element_type, config.device_uuid)
        transport = await self._transports.open(output, device_uuid=engine.device)
        return _opened(processor, output, engine.device, self._image_begin(engine, output, transport), transport)

    async def deferred_cpu(self, config: Config) -> OpenedPath:
        """Open `StreamDeferredCpu`."""
        if not isinstance(config, deferred_cpu_pb2.DeferredCpuConfig):
            raise TypeError(f"Expected a DeferredCpuConfig, got {type(config).__name__}")
        processor, output = self._resolve(config.processor, config.output)
        engine = await self._engines.host(processor.config, output.element_type)
        transport = await self._transports.open(output, device_uuid="")
        return _opened(processor, output, engine.device, self._image_begin(engine, output, transport), transport)

    def _image_begin(
        self, engine: ImageEngine, output: OutputSettings, transport: OpenedTransport
    ) -> Callable[[ItemHeader], ItemWork]:
        # Features that stay on a GPU are not what the cache holds.
        cache = None if output.bypass_cache or isinstance(output.transport, CudaIpc) else self._engines.cache

        def begin(header: ItemHeader) -> ItemWork:
            if isinstance(header, local_pb2.LocalItem):
                raise TypeError("Expected an image, got a LocalItem")
            item, uploaded = image_item(header, transport.uploads)
            if uploaded is None:
                return ImageWork(engine, item, cache)
            return UploadedImageWork(engine, item, cache, uploaded)

        return begin

    def _resolve(
        self, processor: config_pb2.ProcessorConfig, output: config_pb2.OutputConfig
    ) -> tuple[ResolvedProcessor, OutputSettings]:
        """Check both halves of a config, and name what is wrong in either at once."""
        violations: list[ConfigViolation] = []
        resolved: ResolvedProcessor | None = None
        read_output: OutputSettings | None = None
        try:
            resolved = resolve_processor(processor, f"{PREFIX}.processor", self._settings.presets)
        except ConfigFault as fault:
            violations.extend(fault.violations)
        try:
            read_output = output_settings(output, f"{PREFIX}.output", self._settings.chunk_bytes)
        except ConfigFault as fault:
            violations.extend(fault.violations)
        if resolved is None or read_output is None:
            raise ConfigFault(tuple(violations))
        return resolved, read_output


def _opened(
    processor: ResolvedProcessor,
    output: OutputSettings,
    device: str,
    begin: Callable[[ItemHeader], ItemWork],
    transport: OpenedTransport,
) -> OpenedPath:
    return OpenedPath(
        processor=processor,
        output=output,
        device=device,
        begin=begin,
        delivery=transport.delivery,
        uploads=transport.uploads,
        offer=transport.offer,
    )
