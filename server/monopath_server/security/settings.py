"""What an operator can set about who reaches a server, and whether that can be."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from monopath.locality import is_on_this_host

__all__ = ["Exposure", "SecurityError", "SecuritySettings", "check_security"]


class SecurityError(ValueError):
    """A server cannot be as safe as it was asked to be, so it does not start. The text says what to change."""


class Exposure(enum.StrEnum):
    """Whether a service that tells about the server itself is served."""

    AUTO = enum.auto()
    """On this host only: at a loopback address or a unix socket."""
    ON = enum.auto()
    OFF = enum.auto()


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Without a change: plaintext, to this host only, for everyone on it that can reach the address."""

    certificate_file: Path | None = None
    """PEM: the server's certificate, with those between it and its authority behind it. With it there is TLS."""
    private_key_file: Path | None = None
    """PEM: the certificate's key, not encrypted."""
    client_ca_file: Path | None = None
    """PEM: authorities of clients' certificates. With it every client has to show one (mTLS)."""
    token_file: Path | None = None
    """Bearer tokens, one a line. With it every call but those for health needs one of them."""
    insecure: bool = False
    """Plaintext is allowed beyond this host too: something else protects the network."""
    reflection: Exposure = Exposure.AUTO
    """Whether the contract can be asked for."""
    channelz: bool = False
    """Whether gRPC's own counters can be asked for; never beyond this host."""

    max_peer_streams: int = 0
    """Streams of one client at the same time; further ones are refused. 0: as many as of all clients."""
    max_peer_items: int = 0
    """Items without an end of one client; further ones are answered OVERLOADED. 0: as many as of all clients."""
    max_peer_bytes: int = 0
    """Bytes of images and features of one client's unfinished items, likewise."""
    max_peer_pixels: int = 0
    """Pixels of one client's unfinished items, likewise."""

    @property
    def has_tls(self) -> bool:
        """Connections are encrypted."""
        return self.certificate_file is not None

    def shows_reflection_at(self, address: str) -> bool:
        """Return whether the contract can be asked for at an address."""
        return self.reflection is Exposure.ON or (self.reflection is Exposure.AUTO and is_on_this_host(address))


def check_security(address: str, settings: SecuritySettings) -> None:
    """Look whether a server may listen so at `address`: `host:port` or `unix:/path`. Reads no file.

    Raises:
        SecurityError: it may not, or the settings contradict each other.
    """
    if (settings.certificate_file is None) != (settings.private_key_file is None):
        raise SecurityError("Expected a certificate and its key (--tls-cert and --tls-key), got one of them")
    if settings.client_ca_file is not None and not settings.has_tls:
        raise SecurityError(
            "Expected a certificate of the server (--tls-cert, --tls-key) beside --tls-client-ca, got none: clients "
            "can show theirs over TLS only"
        )
    if is_on_this_host(address):
        return
    if not settings.has_tls and not settings.insecure:
        raise SecurityError(
            f"Expected TLS beyond this host, got none for {address}: give --tls-cert and --tls-key, or listen at "
            "127.0.0.1 or unix:/path, or say --insecure where the network is protected otherwise"
        )
    if settings.channelz:
        raise SecurityError(f"Expected an address of this host for --channelz, got {address}")
