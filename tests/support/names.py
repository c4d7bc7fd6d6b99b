"""A name server on the loopback whose answers a test decides."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from dnslib import QTYPE, RR, A
from dnslib.server import BaseResolver, DNSLogger, DNSServer

__all__ = ["NAME", "NameServer", "serving_names"]

NAME = "replicas.monopath.test"


class NameServer(BaseResolver):  # type: ignore[misc]  # the package ships no types
    """Says which addresses `NAME` has, as a headless Service does for its pods."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = list(addresses)
        """What it says from now on: IPv4 addresses."""
        self.port = 0

    def target(self, port: int) -> str:
        """Return the gRPC name that asks this server, for replicas that all listen at one port."""
        return f"dns://127.0.0.1:{self.port}/{NAME}:{port}"

    def resolve(self, request: Any, _handler: Any) -> Any:
        """Answer one question; called by dnslib, in its thread."""
        reply = request.reply()
        if request.q.qtype == QTYPE.A and str(request.q.qname).rstrip(".") == NAME:
            for address in self.addresses:
                reply.add_answer(RR(NAME, QTYPE.A, rdata=A(address), ttl=0))
        return reply


@contextlib.contextmanager
def serving_names(*addresses: str) -> Iterator[NameServer]:
    """Run a name server on a free port while the block runs."""
    names = NameServer(addresses)
    server = DNSServer(names, port=0, address="127.0.0.1", logger=DNSLogger(logf=lambda _line: None))
    names.port = server.server.server_address[1]
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield names
    finally:
        server.server.shutdown()
        thread.join(10)
        server.server.server_close()
