"""Whether a server can listen at an address, found out before gRPC tries.

gRPC says "failed to bind" for everything, takes over the unix socket of a live server, and maps port 99999 to another.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from monopath.cli.faults import ExitCode, UserFault

__all__ = ["address_fault", "check_address"]

_MAX_PORT = 65_535


def address_fault(address: str) -> str:
    """Return what was expected of a text that is no address to listen at; empty for one that is."""
    if address.startswith("unix:"):
        return "" if _socket_path(address).name else "expected unix:/path"
    host, separator, port_text = address.rpartition(":")
    if not separator or not host or not port_text.isascii() or not port_text.isdigit():
        return "expected host:port or unix:/path"
    return "" if int(port_text) <= _MAX_PORT else f"expected a port from 0 to {_MAX_PORT}"


def check_address(address: str, *, may_be_in_use: bool = False) -> None:
    """Raise UserFault with exit code FAILED where a server could not listen at `address`, saying why.

    With `may_be_in_use` an address at which somebody listens now is fine.
    """
    try:
        if fault := address_fault(address):
            raise _fault(address, fault)
        if address.startswith("unix:"):
            _check_unix(address)
        else:
            _check_tcp(address)
    except _InUse:
        if not may_be_in_use:
            raise _fault(address, os.strerror(errno.EADDRINUSE)) from None


class _InUse(Exception):
    """Somebody listens there."""


def _socket_path(address: str) -> Path:
    return Path(address.removeprefix("unix:").replace("//", "/", 1))


def _check_unix(address: str) -> None:
    path = _socket_path(address)
    if not path.parent.is_dir():
        raise _fault(address, f"there is no folder {path.parent}")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise _fault(address, "there is a file of this name that is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                return  # left behind by a process that is gone
            raise _fault(address, os.strerror(error.errno or errno.EIO)) from None
    raise _InUse


def _check_tcp(address: str) -> None:
    host, _, port_text = address.rpartition(":")
    port = int(port_text)
    try:
        resolved = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise _fault(address, f"the host {host} is not known") from None
    causes = [_bind_error(family, where) for family, _, _, _, where in resolved]
    # A host may have names for address families that it does not have; one that works is enough, one in use too much.
    for cause in causes:
        if cause == errno.EADDRINUSE:
            raise _InUse
        if all(causes):
            raise _fault(address, os.strerror(cause))


def _bind_error(family: int, where: tuple[object, ...]) -> int:
    """Return the number of the error that binding gives, 0 where it works."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen(1)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _fault(address: str, cause: str) -> UserFault:
    return UserFault(f"Cannot listen at {address}: {cause[:1].lower()}{cause[1:]}", ExitCode.FAILED)
