"""Where this client's channels lead to, and their options."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from monopath.v1 import service_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ChannelOption", "Target", "channel_options", "channel_target", "names_replicas"]

ChannelOption: TypeAlias = tuple[str, str | int]
Target: TypeAlias = str | Sequence[str]
"""A gRPC name ("host:port", "unix:/path", "dns:///name:port"), or several addresses, "ip:port" or "unix:/path"."""

_MAX_CHUNK_BYTES = 1 << 20
_RECEIVE_SLACK_BYTES = 1 << 16
_KEEPALIVE_TIME_MS = 20_000
_PING_TIMEOUT_MS = 5_000
_MAX_RECONNECT_BACKOFF_MS = 5_000
_SERVICE_NAME = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"].full_name


def channel_target(target: Target) -> str:
    """Return the one name that gRPC takes. Raises ValueError for several addresses that it cannot take together."""
    if isinstance(target, str):
        return target
    if len(target) == 1:
        return target[0]
    families = {_family(address) for address in target}
    if len(families) != 1 or None in families:
        raise ValueError(
            f"Expected several addresses as ip:port, all of IPv4 or all of IPv6, or unix:/path, got {list(target)}; "
            'give names that a name server knows as "dns:///name:port"'
        )
    family = families.pop()
    return f"{family}:{','.join(address.removeprefix('unix:') for address in target)}"


def names_replicas(target: Target) -> bool:
    """Return whether the target lists several addresses, and so leads to replicas and not to a proxy."""
    return "," in channel_target(target)


def _service_config(*, check_health: bool, wait_for_ready: bool) -> str:
    """Return gRPC's service config, as JSON: streams in turn to all addresses that are ready.

    It has no `retryPolicy`: on a bidirectional stream one can abort the process behind a proxy (grpc#40283), and it
    replays nothing once a reply has come. `map` sends items again by itself.
    """
    config: dict[str, object] = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [{"name": [{"service": _SERVICE_NAME}], "waitForReady": wait_for_ready}],
    }
    if check_health:
        config["healthCheckConfig"] = {"serviceName": _SERVICE_NAME}
    return json.dumps(config)


def channel_options(
    extra: Sequence[ChannelOption] = (), *, check_health: bool = False, wait_for_ready: bool = False
) -> list[ChannelOption]:
    """Return our options; of those that `extra` names too, its values."""
    ours: Mapping[str, str | int] = {
        # Chunks are at most 1 MiB, so more is never needed and would only cost memory.
        "grpc.max_receive_message_length": _MAX_CHUNK_BYTES + _RECEIVE_SLACK_BYTES,
        # A server that froze or vanished is noticed while a stream waits. `grpc.keepalive_timeout_ms` is not the ping's
        # timeout, `grpc.http2.ping_timeout_ms` is; and without the third only two pings are sent on a silent stream.
        # Our server allows a ping every 10 s; one with gRPC's defaults would cut off a stream that is silent for 80 s.
        "grpc.keepalive_time_ms": _KEEPALIVE_TIME_MS,
        "grpc.http2.ping_timeout_ms": _PING_TIMEOUT_MS,
        "grpc.http2.max_pings_without_data": 0,
        # By default gRPC waits up to two minutes before it looks for a server again that was away for long.
        "grpc.max_reconnect_backoff_ms": _MAX_RECONNECT_BACKOFF_MS,
        # Two clients in one process get two connections: one connection is at most one server core.
        "grpc.use_local_subchannel_pool": 1,
        "grpc.enable_retries": 0,
        "grpc.service_config": _service_config(check_health=check_health, wait_for_ready=wait_for_ready),
    }
    # Merged by name, since gRPC takes the first of two.
    return list({**ours, **dict(extra)}.items())


def _family(address: str) -> str | None:
    if address.startswith("unix:"):
        return "unix"
    host, _, port = address.rpartition(":")
    try:
        version = ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).version
    except ValueError:
        return None
    return f"ipv{version}" if port.isdecimal() else None
