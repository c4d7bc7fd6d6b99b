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

__all__ = ["check_address"]

_MAX_PORT = 65_535


def check_address(address: str) -> None:
    """Raise UserFault with exit code FAILED where a server could not listen at `address`, saying why."""
    if address.startswith("unix:"):
        _check_unix(address)
    else:
        _check_tcp(address)


def _check_unix(address: str) -> None:
    path = Path(address.removeprefix("unix:").replace("//", "/", 1))
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
    raise _fault(address, os.strerror(errno.EADDRINUSE))


def _check_tcp(address: str) -> None:
    host, separator, port_text = address.rpartition(":")
    if not separator or not host or not port_text.isascii() or not port_text.isdigit():
        raise _fault(address, "expected host:port or unix:/path")
    port = int(port_text)
    if port > _MAX_PORT:
        raise _fault(address, f"expected a port from 0 to {_MAX_PORT}")
    try:
        resolved = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise _fault(address, f"the host {host} is not known") from None
    causes = [_bind_error(family, where) for family, _, _, _, where in resolved]
    # A host may have names for address families that it does not have; one that works is enough, one in use too much.
    for cause in causes:
        if cause == errno.EADDRINUSE or all(causes):
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
