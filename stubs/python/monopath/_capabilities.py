"""What a server says it can do, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monopath._enums import enum_word
from monopath._records import StreamLimits, data_type_word, path_word, resample_kernel_word, stream_limits
from monopath.v1 import image_pb2

if TYPE_CHECKING:
    from monopath.v1 import config_pb2, service_pb2

__all__ = ["Availability", "Capabilities", "Device", "Preset", "capabilities"]


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a path or a transport can be used."""

    name: str
    """A `PreprocessingPath`, or a `Transport`."""
    available: bool
    unavailable_reason: str
    """Why it cannot be used, in words. Empty where it can."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that features can be made on."""

    id: str
    """"cpu", or the GPU's UUID as its driver prints it."""
    name: str
    paths: tuple[str, ...]
    memory_bytes: int
    """0 for the CPU."""


@dataclass(frozen=True, slots=True, eq=False)
class Preset:
    """A config that a server has under a name."""

    name: str
    processor: config_pb2.ProcessorConfig
    config_sha256: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Capabilities:
    """What a server can do. Words are those of this package's enums, or numbers as text where it has none."""

    contract_version: str
    server_version: str
    paths: tuple[Availability, ...]
    devices: tuple[Device, ...]
    presets: tuple[Preset, ...]
    data_types: tuple[str, ...]
    transports: tuple[Availability, ...]
    limits: StreamLimits
    image_formats: tuple[str, ...]
    pixel_formats: tuple[str, ...]
    resample_kernels: tuple[str, ...]
    pillow_version: str
    pillow_resample_kernel: str


def capabilities(message: service_pb2.GetCapabilitiesResponse) -> Capabilities:
    """Read what a server can do."""
    pixel_format = image_pb2.PixelFormat.DESCRIPTOR
    return Capabilities(
        contract_version=message.contract_version,
        server_version=message.server_version,
        paths=tuple(
            Availability(path_word(path.path), path.available, path.unavailable_reason) for path in message.paths
        ),
        devices=tuple(
            Device(device.id, device.name, tuple(path_word(path) for path in device.paths), device.memory_bytes)
            for device in message.devices
        ),
        presets=tuple(Preset(preset.name, preset.processor, preset.config_sha256) for preset in message.presets),
        data_types=tuple(data_type_word(data_type) for data_type in message.data_types),
        transports=tuple(
            Availability(transport.name, transport.available, transport.unavailable_reason)
            for transport in message.transports
        ),
        limits=stream_limits(message.limits),
        image_formats=tuple(message.image_formats),
        pixel_formats=tuple(enum_word(pixel_format, number, "PIXEL_FORMAT_") for number in message.pixel_formats),
        resample_kernels=tuple(resample_kernel_word(kernel) for kernel in message.resample_kernels),
        pillow_version=message.pillow_version,
        pillow_resample_kernel=resample_kernel_word(message.pillow_resample_kernel),
    )
