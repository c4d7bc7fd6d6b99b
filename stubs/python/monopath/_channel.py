"""Options of the channels that this client makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["ChannelOption", "channel_options"]

ChannelOption: TypeAlias = tuple[str, str | int]

_MAX_CHUNK_BYTES = 1 << 20
_RECEIVE_SLACK_BYTES = 1 << 20
_KEEPALIVE_TIME_MS = 20_000
_PING_TIMEOUT_MS = 5_000


def channel_options(extra: Sequence[ChannelOption] = ()) -> list[ChannelOption]:
    """Return our options; of those that `extra` names too, its values."""
    ours: dict[str, str | int] = {
        # Chunks are at most 1 MiB, so more is never needed and would only cost memory.
        "grpc.max_receive_message_length": _MAX_CHUNK_BYTES + _RECEIVE_SLACK_BYTES,
        # A server that froze or vanished is noticed while a stream waits. `grpc.keepalive_timeout_ms` is not the ping's
        # timeout, `grpc.http2.ping_timeout_ms` is; and without the third only two pings are sent on a silent stream.
        # Our server allows a ping every 10 s; one with gRPC's defaults would cut off a stream that is silent for 80 s.
        "grpc.keepalive_time_ms": _KEEPALIVE_TIME_MS,
        "grpc.http2.ping_timeout_ms": _PING_TIMEOUT_MS,
        "grpc.http2.max_pings_without_data": 0,
        # Two clients in one process get two connections: one connection is at most one server core.
        "grpc.use_local_subchannel_pool": 1,
        # A retry policy on a bidirectional stream can abort the process behind a proxy (grpc#40283).
        "grpc.enable_retries": 0,
    }
    # Merged by name, since gRPC takes the first of two.
    return list({**ours, **dict(extra)}.items())
