"""Where each of several processes listens, and the one target under which clients find them all."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import PurePosixPath

__all__ = ["address_of_process", "target_of"]

_MAX_PORT = 65_535


def address_of_process(address: str, index: int) -> str:
    """Return where the process `index`, from 0, listens: the next ports, or sockets with numbers in their names.

    Port 0, any free one, stays 0. Raises ValueError where there is no such port.
    """
    if address.startswith("unix:"):
        path = PurePosixPath(address.removeprefix("unix:").removeprefix("//"))
        return f"unix:{path.with_name(f'{path.stem}.{index}{path.suffix}')}"
    host, _, port_text = address.rpartition(":")
    port = int(port_text)
    if port == 0:
        return address
    if port + index > _MAX_PORT:
        raise ValueError(f"expected a port up to {_MAX_PORT} for each process, got {port + index} for process {index}")
    return f"{host}:{port + index}"


def target_of(addresses: Sequence[str]) -> str:
    """Return the one name that a client takes for all addresses.

    Raises:
        ValueError: gRPC has no list of such addresses: those with a host that is no IP address.
    """
    if len(addresses) == 1:
        return addresses[0]
    if all(address.startswith("unix:") for address in addresses):
        return "unix:" + ",".join(address.removeprefix("unix:") for address in addresses)
    versions = set()
    for address in addresses:
        host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
        try:
            versions.add(ipaddress.ip_address(host).version)
        except ValueError:
            raise ValueError(
                f"expected an IP address such as 127.0.0.1 to listen at with several processes, got {host!r}"
            ) from None
    [version] = versions
    return f"ipv{version}:{','.join(addresses)}"
