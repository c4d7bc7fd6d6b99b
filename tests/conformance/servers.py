"""The servers that the suite runs against. The real ones have their default limits and presets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.conformance.newer_server import newer_server
from tests.conformance.suite import Servers
from tests.support.processes import serving

__all__ = ["running_servers"]


@contextlib.contextmanager
def running_servers(cuda: str) -> Iterator[Servers]:
    """Run a server without CUDA, one with it ("auto", "interpreter", or "off" for none), and a newer one."""
    with contextlib.ExitStack() as stack:
        newer = stack.enter_context(newer_server())
        plain = stack.enter_context(serving("--address", "127.0.0.1:0", "--cuda", "off"))
        if cuda == "off":
            yield Servers(plain.address, None, newer)
            return
        other = stack.enter_context(serving("--address", "127.0.0.1:0", "--cuda", cuda))
        yield Servers(plain.address, other.address, newer)
