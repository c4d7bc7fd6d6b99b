"""The options of `monopath serve` that bound something, with the defaults of `monopath_server.settings`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from monopath.cli.output import bytes_text
from monopath.cli.values import bytes_between
from monopath_server.settings import Settings

__all__ = [
    "DEFAULTS",
    "BatchWaitOption",
    "CacheBytesOption",
    "ChunkBytesOption",
    "FeatureBytesOption",
    "GraceOption",
    "IdleBufferBytesOption",
    "IdleTimeoutOption",
    "ImageBytesOption",
    "ImagePixelsOption",
    "ImageSideOption",
    "LameDuckOption",
    "LeaseTimeoutOption",
    "OpeningTimeoutOption",
    "ProcessBytesOption",
    "ProcessItemsOption",
    "ProcessPixelsOption",
    "ReplyTimeoutOption",
    "SharedDeviceBytesOption",
    "SharedMemoryBytesOption",
    "SharedMemoryDirectoryOption",
    "StreamAgeOption",
    "StreamsOption",
    "UnfinishedBytesOption",
    "UnfinishedItemsOption",
    "UnfinishedPixelsOption",
]

DEFAULTS = Settings()
"""What holds where nothing is said."""

_GIB = 1 << 30
_MAX_COUNT = 1_000_000
_MAX_PIXELS = (1 << 32) - 1


def _bytes(name: str, default: int, help_text: str, *, low: int = 1, high: int = 1024 * _GIB) -> Any:
    return typer.Option(
        envvar=f"MONOPATH_{name}",
        metavar="BYTES",
        parser=bytes_between(low, high),
        help=help_text,
        show_default=bytes_text(default).replace(" ", ""),
    )


def _count(name: str, metavar: str, help_text: str, *, low: int = 1, high: int = _MAX_COUNT) -> Any:
    return typer.Option(envvar=f"MONOPATH_{name}", metavar=metavar, min=low, max=high, help=help_text)


def _seconds(name: str, help_text: str) -> Any:
    return typer.Option(envvar=f"MONOPATH_{name}", metavar="SECONDS", min=0.0, max=1e9, help=help_text)


GraceOption: TypeAlias = Annotated[
    float, _seconds("GRACE", "How long a stopping server waits for accepted items and for clients to half-close.")
]
LameDuckOption: TypeAlias = Annotated[
    float,
    _seconds(
        "LAME_DUCK",
        "How long a stopping server goes on taking streams after its health is NOT_SERVING, for balancers to notice.",
    ),
]
ImageBytesOption: TypeAlias = Annotated[
    int,
    _bytes(
        "MAX_IMAGE_BYTES",
        DEFAULTS.image_limits.max_encoded_bytes,
        "Largest image: bytes of its file, or of its raw pixels.",
        high=_GIB,
    ),
]
ImageSideOption: TypeAlias = Annotated[int, _count("MAX_IMAGE_SIDE", "PIXELS", "Longest side of an image.")]
ImagePixelsOption: TypeAlias = Annotated[
    int, _count("MAX_IMAGE_PIXELS", "PIXELS", "Most pixels of an image.", high=_MAX_PIXELS)
]
FeatureBytesOption: TypeAlias = Annotated[
    int,
    _bytes("MAX_FEATURE_BYTES", DEFAULTS.max_feature_bytes, "Most bytes of one image's features.", high=4 * _GIB - 1),
]
UnfinishedItemsOption: TypeAlias = Annotated[
    int,
    _count(
        "MAX_UNFINISHED_ITEMS",
        "IMAGES",
        "Most images without a result on one stream; the server then stops reading it for a while.",
    ),
]
UnfinishedBytesOption: TypeAlias = Annotated[
    int,
    _bytes(
        "MAX_UNFINISHED_BYTES",
        DEFAULTS.max_unfinished_bytes,
        "The same in bytes, of images and of their features.",
    ),
]
UnfinishedPixelsOption: TypeAlias = Annotated[
    int, _count("MAX_UNFINISHED_PIXELS", "PIXELS", "The same in pixels.", high=1 << 40)
]
StreamsOption: TypeAlias = Annotated[
    int, _count("MAX_STREAMS", "STREAMS", "Most streams at the same time; further ones are refused.")
]
ProcessItemsOption: TypeAlias = Annotated[
    int,
    _count(
        "MAX_PROCESS_ITEMS",
        "IMAGES",
        "Most images without a result on all streams; further ones are answered OVERLOADED.",
        high=1 << 40,
    ),
]
ProcessBytesOption: TypeAlias = Annotated[
    int,
    _bytes("MAX_PROCESS_BYTES", DEFAULTS.max_process_bytes, "The same in bytes, of images and of their features."),
]
ProcessPixelsOption: TypeAlias = Annotated[
    int, _count("MAX_PROCESS_PIXELS", "PIXELS", "The same in pixels.", high=1 << 40)
]
ChunkBytesOption: TypeAlias = Annotated[
    int,
    _bytes("CHUNK_BYTES", DEFAULTS.chunk_bytes, "Bytes of features in one response message.", low=4096, high=1 << 20),
]
IdleBufferBytesOption: TypeAlias = Annotated[
    int,
    _bytes("IDLE_BUFFER_BYTES", DEFAULTS.idle_buffer_bytes, "Memory that is kept for reuse between images.", low=0),
]
CacheBytesOption: TypeAlias = Annotated[
    int,
    _bytes("CACHE_BYTES", DEFAULTS.cache_bytes, "Features that are kept for images that come again; 0: none.", low=0),
]
SharedMemoryDirectoryOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        envvar="MONOPATH_SHARED_MEMORY_DIR",
        metavar="FOLDER",
        help="Where shared memory is: a folder in memory that clients of this host see too.",
    ),
]
SharedMemoryBytesOption: TypeAlias = Annotated[
    int,
    _bytes(
        "MAX_SHARED_MEMORY_BYTES",
        DEFAULTS.max_shared_memory_bytes,
        "Most shared memory for features; what does not fit travels in messages. 0: no shared memory.",
        low=0,
    ),
]
SharedDeviceBytesOption: TypeAlias = Annotated[
    int,
    _bytes(
        "MAX_SHARED_DEVICE_BYTES",
        DEFAULTS.max_shared_device_bytes,
        "Most memory of each GPU for features that stay on it (CUDA IPC). 0: none.",
        low=0,
    ),
]
LeaseTimeoutOption: TypeAlias = Annotated[
    float, _seconds("LEASE_TIMEOUT", "How long a client may keep features in shared memory without releasing them.")
]
BatchWaitOption: TypeAlias = Annotated[
    int,
    _count(
        "BATCH_WAIT_US",
        "MICROSECONDS",
        "How long a GPU that is free waits for images that are being decoded.",
        low=0,
    ),
]
OpeningTimeoutOption: TypeAlias = Annotated[
    float, _seconds("OPENING_TIMEOUT", "How long a new stream may be without a config.")
]
IdleTimeoutOption: TypeAlias = Annotated[
    float, _seconds("IDLE_TIMEOUT", "How long a client may say nothing while no image of its waits for the server.")
]
ReplyTimeoutOption: TypeAlias = Annotated[
    float, _seconds("REPLY_TIMEOUT", "How long a client may leave a response unread.")
]
StreamAgeOption: TypeAlias = Annotated[
    float,
    _seconds(
        "MAX_STREAM_AGE",
        "Age at which a client is asked to open a new stream, so that new replicas get work; 0: never.",
    ),
]
