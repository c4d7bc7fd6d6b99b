"""Opens each path with its config: checks it, finds the engine, and says why where it cannot."""

from __future__ import annotations

from collections.abc import Callable

from monopath.v1 import config_pb2, deferred_cpu_pb2, deferred_cuda_pb2, local_pb2
from monopath_server.engine.engines import Engines
from monopath_server.engine.local import LocalWork
from monopath_server.engine.work import ImageEngine, ImageWork, ItemWork
from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.serving.configs import OutputSettings, ResolvedProcessor, output_settings, resolve_processor
from monopath_server.serving.requests import Config, ItemHeader, image_item, local_item
from monopath_server.serving.session import OpenedPath
from monopath_server.settings import Settings

__all__ = ["Openings"]

PREFIX = "config"


class Openings:
    """The openers of the three paths over one set of engines."""

    def __init__(self, settings: Settings, engines: Engines) -> None:
        self._settings = settings
        self._engines = engines

    async def local(self, config: Config) -> OpenedPath:
        """Open `StreamLocal`."""
        if not isinstance(config, local_pb2.LocalConfig):
            raise TypeError(f"Expected a LocalConfig, got {type(config).__name__}")
        processor, output = self._resolve(config.processor, config.output)
        engine = await self._engines.local(processor.config, output.element_type)

        def begin(header: ItemHeader) -> ItemWork:
            if not isinstance(header, local_pb2.LocalItem):
                raise TypeError(f"Expected a LocalItem, got {type(header).__name__}")
            return LocalWork(engine, local_item(header))

        return OpenedPath(processor, output, engine.device, begin)

    async def deferred_cuda(self, config: Config) -> OpenedPath:
        """Open `StreamDeferredCuda`. Refused where there is no device: a path never becomes another one."""
        if not isinstance(config, deferred_cuda_pb2.DeferredCudaConfig):
            raise TypeError(f"Expected a DeferredCudaConfig, got {type(config).__name__}")
        processor, output = self._resolve(config.processor, config.output)
        engine = await self._engines.device(processor.config, output.element_type, config.device_uuid)
        return OpenedPath(processor, output, engine.device, _image_begin(engine))

    async def deferred_cpu(self, config: Config) -> OpenedPath:
        """Open `StreamDeferredCpu`."""
        if not isinstance(config, deferred_cpu_pb2.DeferredCpuConfig):
            raise TypeError(f"Expected a DeferredCpuConfig, got {type(config).__name__}")
        processor, output = self._resolve(config.processor, config.output)
        engine = await self._engines.host(processor.config, output.element_type)
        return OpenedPath(processor, output, engine.device, _image_begin(engine))

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


def _image_begin(engine: ImageEngine) -> Callable[[ItemHeader], ItemWork]:
    def begin(header: ItemHeader) -> ItemWork:
        if isinstance(header, local_pb2.LocalItem):
            raise TypeError("Expected an image, got a LocalItem")
        return ImageWork(engine, image_item(header))

    return begin
