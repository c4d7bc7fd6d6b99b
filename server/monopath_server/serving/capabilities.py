"""`GetCapabilities`: what this server can do, and why it cannot do the rest."""

from __future__ import annotations

import platform

import PIL

import monopath_server
from monopath.v1 import config_pb2, image_pb2, path_pb2, service_pb2, tensor_pb2
from monopath_server.engine.engines import Engines
from monopath_server.media.pillow import ALLOWED_FORMATS
from monopath_server.processors.digest import config_digest
from monopath_server.serving.enums import RESAMPLE_KERNELS
from monopath_server.serving.events import limits_message
from monopath_server.serving.families.registry import processor_message
from monopath_server.settings import Settings
from monopath_server.transforms.self_check import installed_resample_kernel

__all__ = ["CONTRACT_VERSION", "capabilities"]

CONTRACT_VERSION = "1.3.0"


def capabilities(settings: Settings, engines: Engines) -> service_pb2.GetCapabilitiesResponse:
    """Describe the server."""
    return service_pb2.GetCapabilitiesResponse(
        contract_version=CONTRACT_VERSION,
        server_version=monopath_server.__version__,
        paths=[
            service_pb2.PathCapability(path=path_pb2.PREPROCESSING_PATH_LOCAL, available=True),
            service_pb2.PathCapability(
                path=path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA,
                available=not engines.device_missing,
                unavailable_reason=engines.device_missing,
            ),
            service_pb2.PathCapability(path=path_pb2.PREPROCESSING_PATH_DEFERRED_CPU, available=True),
        ],
        devices=[
            service_pb2.Device(
                id="cpu",
                name=platform.processor() or platform.machine(),
                paths=[path_pb2.PREPROCESSING_PATH_DEFERRED_CPU],
            ),
            *(
                service_pb2.Device(
                    id=device.id,
                    name=device.name,
                    memory_bytes=device.memory_bytes,
                    paths=[path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA],
                )
                for device in engines.devices
            ),
        ],
        presets=[
            service_pb2.Preset(name=name, processor=processor_message(config), config_sha256=config_digest(config))
            for name, config in sorted(settings.presets.items())
        ],
        data_types=[number for number in tensor_pb2.DataType.values() if number != 0],
        transports=[
            service_pb2.TransportCapability(name="inline", available=True),
            service_pb2.TransportCapability(
                name="shared_memory",
                available=not engines.shared_memory_missing,
                unavailable_reason=engines.shared_memory_missing,
            ),
            service_pb2.TransportCapability(
                name="cuda_ipc",
                available=not engines.device_memory_missing,
                unavailable_reason=engines.device_memory_missing,
            ),
        ],
        limits=limits_message(settings, settings.chunk_bytes),
        image_formats=ALLOWED_FORMATS,
        pixel_formats=[number for number in image_pb2.PixelFormat.values() if number != 0],
        resample_kernels=[number for number in config_pb2.ResampleKernel.values() if number != 0],
        pillow_version=PIL.__version__,
        pillow_resample_kernel=RESAMPLE_KERNELS.to_wire(installed_resample_kernel()),
    )
