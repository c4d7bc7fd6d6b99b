"""What each client holds: its streams, and its unfinished work over all of them."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from typing import Any

import grpc

from monopath_server.engine.budget import Budget, Load
from monopath_server.faults import StreamFault, StreamReason
from monopath_server.security.settings import SecuritySettings
from monopath_server.security.tokens import bearer_token

__all__ = ["Peer", "Peers"]


@dataclass(slots=True)
class Peer:
    """A client with at least one stream."""

    key: str
    budget: Budget
    """Its unfinished work."""
    stream_count: int = 0


class Peers:
    """The clients that have streams, each known by what it has shown. Used on the event loop only."""

    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._peers: dict[str, Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def enter(self, context: grpc.aio.ServicerContext[Any, Any]) -> Peer:
        """Count a stream of the client that called; `leave` has to follow.

        Raises:
            StreamFault: OVERLOADED, where the client has as many streams as it may.
        """
        key = _key_of(context, has_tokens=self._settings.token_file is not None)
        peer = self._peers.get(key) or Peer(key, self._new_budget())
        limit = self._settings.max_peer_streams
        if limit and peer.stream_count >= limit:
            message = f"Expected at most {limit} streams of one client at the same time, got one more"
            raise StreamFault(StreamReason.OVERLOADED, message)
        peer.stream_count += 1
        self._peers[key] = peer
        return peer

    def leave(self, peer: Peer) -> None:
        """The stream has ended. Nothing is kept of a client without one."""
        peer.stream_count -= 1
        if peer.stream_count == 0:
            del self._peers[peer.key]

    def _new_budget(self) -> Budget:
        settings = self._settings
        limits = (settings.max_peer_items, settings.max_peer_bytes, settings.max_peer_pixels)
        return Budget(Load(*(limit or sys.maxsize for limit in limits)), scope="of one client")


def _key_of(context: grpc.aio.ServicerContext[Any, Any], *, has_tokens: bool) -> str:
    """Return what tells clients apart: the names in its certificate, else its token, else the host it calls from.

    Only what was checked counts: without tokens to hold it against, a client could claim another one for each stream.
    """
    names = context.peer_identities()
    if names:
        return f"certificate {sorted(names)}"
    token = bearer_token(context.invocation_metadata() or ()) if has_tokens else None
    if token is not None:
        return f"token {hashlib.sha256(token.encode()).hexdigest()}"
    # "ipv4:10.0.0.7:41234", "ipv6:%5B::1%5D:41234", "unix:": all clients of a unix socket are one.
    host, _, _ = context.peer().rpartition(":")
    return f"host {host}"
