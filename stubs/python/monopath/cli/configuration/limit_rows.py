"""Settings that bound something."""

from __future__ import annotations

from typing import Final

from monopath.cli.configuration.kinds import Bytes, Number, Seconds
from monopath.cli.configuration.places import Folder
from monopath.cli.configuration.setting import Group, Setting

__all__ = ["LIMIT_ROWS"]

_GIB = 1 << 30
_MAX_PIXELS = (1 << 32) - 1
_MANY = 1 << 40


LIMIT_ROWS: Final = (
    Setting(
        "max_image_bytes",
        Bytes(high=_GIB),
        "Largest image: bytes of its file, or of its raw pixels.",
        Group.ITEMS,
        sets="image_limits.max_encoded_bytes",
    ),
    Setting(
        "max_image_side",
        Number("PIXELS", unit="pixels"),
        "Longest side of an image.",
        Group.ITEMS,
        sets="image_limits.max_side_px",
    ),
    Setting(
        "max_image_pixels",
        Number("PIXELS", high=_MAX_PIXELS, unit="pixels"),
        "Most pixels of an image.",
        Group.ITEMS,
        sets="image_limits.max_pixels",
    ),
    Setting(
        "max_feature_bytes",
        Bytes(high=4 * _GIB - 1),
        "Most bytes of one image's features.",
        Group.ITEMS,
        sets="max_feature_bytes",
    ),
    Setting(
        "max_unfinished_items",
        Number("IMAGES", unit="images on a stream"),
        "Most images without a result on one stream; the server then stops reading it for a while.",
        Group.STREAMS,
        sets="max_unfinished_items",
    ),
    Setting(
        "max_unfinished_bytes",
        Bytes(),
        "The same in bytes, of images and of their features.",
        Group.STREAMS,
        sets="max_unfinished_bytes",
    ),
    Setting(
        "max_unfinished_pixels",
        Number("PIXELS", high=_MANY, unit="pixels on a stream"),
        "The same in pixels.",
        Group.STREAMS,
        sets="max_unfinished_pixels",
    ),
    Setting(
        "chunk_bytes",
        Bytes(4096, 1 << 20),
        "Bytes of features in one response message.",
        Group.STREAMS,
        sets="chunk_bytes",
    ),
    Setting(
        "max_streams",
        Number("STREAMS", unit="streams"),
        "Most streams at the same time; further ones are refused.",
        Group.ALL_STREAMS,
        sets="max_streams",
    ),
    Setting(
        "max_process_items",
        Number("IMAGES", high=_MANY, unit="images on all streams"),
        "Most images without a result on all streams; further ones are answered OVERLOADED.",
        Group.ALL_STREAMS,
        sets="max_process_items",
    ),
    Setting(
        "max_process_bytes",
        Bytes(),
        "The same in bytes, of images and of their features.",
        Group.ALL_STREAMS,
        sets="max_process_bytes",
    ),
    Setting(
        "max_process_pixels",
        Number("PIXELS", high=_MANY, unit="pixels on all streams"),
        "The same in pixels.",
        Group.ALL_STREAMS,
        sets="max_process_pixels",
    ),
    Setting(
        "idle_buffer_bytes",
        Bytes(low=0),
        "Memory that is kept for reuse between images.",
        Group.MEMORY,
        sets="idle_buffer_bytes",
    ),
    Setting(
        "cache_bytes",
        Bytes(low=0),
        "Features that are kept for images that come again; 0: none.",
        Group.MEMORY,
        sets="cache_bytes",
    ),
    Setting(
        "shared_memory_dir",
        Folder(),
        "Where shared memory is: a folder in memory that clients of this host see too.",
        Group.MEMORY,
        sets="shared_memory_directory",
    ),
    Setting(
        "max_shared_memory_bytes",
        Bytes(low=0),
        "Most shared memory for features; what does not fit travels in messages. 0: no shared memory.",
        Group.MEMORY,
        sets="max_shared_memory_bytes",
    ),
    Setting(
        "max_shared_device_bytes",
        Bytes(low=0),
        "Most memory of each GPU for features that stay on it (CUDA IPC). 0: none.",
        Group.MEMORY,
        sets="max_shared_device_bytes",
    ),
    Setting(
        "lease_timeout",
        Seconds(),
        "How long a client may keep features in shared memory without releasing them.",
        Group.TIMES,
        sets="lease_timeout_seconds",
    ),
    Setting(
        "batch_wait_us",
        Number("MICROSECONDS", low=0, unit="microseconds"),
        "How long a GPU that is free waits for images that are being decoded.",
        Group.TIMES,
        sets="batch_wait_us",
    ),
    Setting(
        "opening_timeout",
        Seconds(),
        "How long a new stream may be without a config.",
        Group.TIMES,
        sets="opening_timeout_seconds",
    ),
    Setting(
        "idle_timeout",
        Seconds(),
        "How long a client may say nothing while no image of its waits for the server.",
        Group.TIMES,
        sets="idle_timeout_seconds",
    ),
    Setting(
        "reply_timeout",
        Seconds(),
        "How long a client may leave a response unread.",
        Group.TIMES,
        sets="reply_timeout_seconds",
    ),
    Setting(
        "max_stream_age",
        Seconds(),
        "Age at which a client is asked to open a new stream, so that new replicas get work; 0: never.",
        Group.TIMES,
        sets="max_stream_age_seconds",
    ),
)
"""In the order in which they are listed."""
