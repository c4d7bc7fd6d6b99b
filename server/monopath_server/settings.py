"""What an operator can set, as one frozen object. Where the values come from (flags, environment) is the caller's."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from monopath.shared_memory import DEFAULT_DIRECTORY
from monopath_server.media.limits import ImageLimits
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.presets import PRESETS
from monopath_server.security.settings import SecuritySettings
from monopath_server.telemetry.settings import TelemetrySettings

__all__ = ["DeviceMode", "Settings"]

MIB = 1024 * 1024


class DeviceMode(enum.StrEnum):
    """Where `StreamDeferredCuda` makes features."""

    AUTO = enum.auto()
    """On the CUDA devices that are found; without any, the path is refused."""
    REQUIRED = enum.auto()
    """On the CUDA devices that are found; without any, the server does not start."""
    OFF = enum.auto()
    """Nowhere: CUDA is not even looked for, and no CUDA context is ever made."""
    INTERPRETER = enum.auto()
    """In Triton's interpreter, on the CPU: for tests of the path where there is no GPU. Very slow."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a server, with defaults that fit a small host."""

    address: str = "127.0.0.1:50051"
    """Where to listen: `host:port` (port 0: any free one) or `unix:/path`."""

    security: SecuritySettings = field(default_factory=SecuritySettings)
    """Who may reach it, and how."""

    worker_count: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    """Threads that decode and transform."""
    cuda: DeviceMode = DeviceMode.AUTO
    max_device_scratch_bytes: int = 512 * MIB
    """Memory of a GPU for the pixels, scratch and output of batches under way; larger ones are split."""

    image_limits: ImageLimits = field(default_factory=ImageLimits)
    max_feature_bytes: int = 512 * MIB
    """Bytes of one item's features."""
    max_unfinished_items: int = 64
    """Items without an end on one stream; beyond it the server stops reading."""
    max_unfinished_bytes: int = 256 * MIB
    """Bytes of images and features of unfinished items on one stream; beyond it the server stops reading."""
    max_unfinished_pixels: int = 256 * MIB
    """Pixels of unfinished items on one stream; beyond it the server stops reading."""
    max_streams: int = 1024
    """Streams at the same time; further ones are refused."""
    max_process_items: int = 16_384
    """Items without an end on all streams; further ones are answered OVERLOADED."""
    max_process_bytes: int = 2048 * MIB
    """Bytes of images and features of unfinished items on all streams; further ones are answered OVERLOADED."""
    max_process_pixels: int = 1024 * MIB
    """Pixels of unfinished items on all streams; further ones are answered OVERLOADED."""
    chunk_bytes: int = MIB
    """Bytes of features in one response message; at most 1 MiB, so that no client has to raise gRPC's limit."""
    idle_buffer_bytes: int = 512 * MIB
    """Memory that is kept for reuse between items."""
    cache_bytes: int = 256 * MIB
    """Features that are kept for images that come again; 0: none."""

    shared_memory_directory: Path = DEFAULT_DIRECTORY
    """Where segments of shared memory are: a directory in memory that clients of this host share."""
    max_shared_memory_bytes: int = 1024 * MIB
    """Shared memory for features: leased, cached and idle. Beyond it items go in chunks; 0: no shared memory at all."""
    max_shared_device_bytes: int = 1024 * MIB
    """Memory of each GPU for features that stay there: leased, retired and kept for reuse. 0: none."""
    lease_timeout_seconds: float = 300.0
    """How long a client may keep features in shared memory, or in a GPU's, without releasing them."""

    max_batch_items: int = 64
    """Images that a device transforms at once."""
    max_batch_patches: int = 131_072
    """Patches that a device transforms at once."""
    batch_wait_us: int = 500
    """Microseconds that a free device waits for images that are being decoded, before it starts without them."""

    opening_timeout_seconds: float = 10.0
    """How long a new stream may be without a config."""
    idle_timeout_seconds: float = 3600.0
    """How long a client may say nothing while no item of its waits for the server."""
    reply_timeout_seconds: float = 120.0
    """How long a client may leave a response unread."""
    max_stream_age_seconds: float = 600.0
    """Age at which a stream is asked to move, so that new replicas get their share; 0: never."""
    stream_age_jitter: float = 0.2
    """Part of the age by which streams differ at random, so that they do not all move at once."""

    refusal_drain_seconds: float = 5.0
    """How long a broken stream is read and discarded until its client half-closes."""
    refusal_drain_bytes: int = 64 * MIB
    """How much a broken stream may still send before it is ended at once."""
    lame_duck_seconds: float = 0.0
    """How long a stopping server keeps accepting after its readiness went off, so that balancers notice."""
    grace_seconds: float = 30.0
    """How long a stopping server waits for accepted items and half-closes."""

    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    """What operators see of the server."""

    presets: Mapping[str, ProcessorConfig] = field(default_factory=lambda: dict(PRESETS))
    """Configs that clients can ask for by name."""

    @property
    def max_request_bytes(self) -> int:
        """Bytes of one request message: the largest image, and slack for one slightly too large to be an item error."""
        return self.image_limits.max_encoded_bytes + 4 * MIB
