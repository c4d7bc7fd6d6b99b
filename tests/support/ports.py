"""Ports that a test decides on before anybody listens there."""

from __future__ import annotations

import contextlib
import socket

__all__ = ["free_ports"]


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody uses at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
