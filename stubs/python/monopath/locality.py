"""Whether an address is on this host, judged by its text alone: a name server is never asked."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["is_on_this_host"]

_SCHEME = re.compile(r"(unix|unix-abstract|dns|ipv4|ipv6):(.*)", re.DOTALL)


def is_on_this_host(target: str) -> bool:
    """Return whether nothing that is sent to a gRPC name, or that comes to it, crosses a network.

    True for unix sockets, and for loopback addresses and "localhost", all of them where there are several. False for
    other names, wherever they lead.
    """
    matched = _SCHEME.fullmatch(target)
    # "dns:50051" could also be a host of that name; it is none of ours either way.
    scheme, rest = ("dns", target) if matched is None else (matched[1], matched[2])
    if scheme.startswith("unix"):
        return True
    if rest.startswith("//"):
        authority, _, rest = rest.removeprefix("//").partition("/")
        if authority:
            return False
    return all(_is_loopback(address) for address in rest.split(","))


def _is_loopback(address: str) -> bool:
    host = re.sub(r":\d+$", "", address) if "]" in address or address.count(":") == 1 else address
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
