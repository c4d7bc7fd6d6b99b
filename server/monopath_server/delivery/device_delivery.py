"""Results that stay in the memory of a GPU, for clients of this host that see the same one."""

from __future__ import annotations

from collections.abc import Sequence

from monopath.cuda_memory import boot_id, pid_namespace
from monopath_server.delivery.deliveries import LeasingDelivery
from monopath_server.delivery.device_memory import DeviceMemoryPool, PooledDeviceRows
from monopath_server.delivery.leases import Leases
from monopath_server.delivery.parts import TransportKind
from monopath_server.engine.rows import HostPlace

__all__ = ["DeviceDelivery", "check_client"]


def check_client(
    client_boot_id: str, client_pid_namespace: str, client_device_uuids: Sequence[str], device_uuid: str
) -> str:
    """Why a client cannot open memory of this process's device; empty where nothing speaks against it.

    CUDA's handles are refused across PID namespaces, and mean nothing on another host. What a client says may be wrong,
    so it tries the probe, too.
    """
    for name, found, own in (
        ("boot_id", client_boot_id, boot_id()),
        ("pid_namespace", client_pid_namespace, pid_namespace()),
    ):
        if not found:
            return f"Expected the {name} of the client, got none"
        if found != own:
            return (
                f"Expected a client with the server's {name} {own}, got {found}: client and server have to run on one "
                "host and share one PID namespace (containers: --pid, pods: shareProcessNamespace)"
            )
    if device_uuid not in client_device_uuids:
        seen = ", ".join(client_device_uuids) or "none"
        return f"Expected a client that sees the server's device {device_uuid}, got one that sees {seen}"
    return ""


class DeviceDelivery(LeasingDelivery):
    """In the memory of the device that made them, and in chunks where none is left there."""

    transport = TransportKind.CUDA_IPC

    def __init__(self, pool: DeviceMemoryPool, fallback: HostPlace, leases: Leases, *, chunk_bytes: int) -> None:
        super().__init__(pool.place(fallback), PooledDeviceRows, leases, chunk_bytes=chunk_bytes)
