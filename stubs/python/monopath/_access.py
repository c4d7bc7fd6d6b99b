"""How a client's calls come to a server and are let in: TLS, and a bearer token."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import grpc

from monopath._channel import ChannelOption, Target, channel_target
from monopath._token import Token
from monopath.locality import is_on_this_host

__all__ = ["Access", "Tls"]

CallT = TypeVar("CallT")
_AUTHORIZATION = "authorization"


@dataclass(frozen=True, slots=True)
class Tls:
    """Encryption, and who the two sides are. Every file is PEM: its path, or its bytes."""

    root_certificates: Path | bytes | None = None
    """Authorities that the server's certificate has to come from; None: the public ones that gRPC brings."""
    certificate: Path | bytes | None = None
    """The client's own certificate, those between it and its authority behind it, for a server that wants one."""
    private_key: Path | bytes | None = field(default=None, repr=False)
    """The key of `certificate`, not encrypted."""
    server_name: str | None = None
    """The name in the server's certificate, where that is not the one in the target, such as behind a tunnel."""

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Read the files and return what gRPC takes.

        Raises OSError for a file that cannot be read, ValueError for one that cannot be what it is to be.
        """
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("Expected a certificate of the client and its key, got one of them")
        roots = _read(self.root_certificates)
        if roots is not None:
            _check_certificates(roots, self.root_certificates)
        return grpc.ssl_channel_credentials(roots, _read(self.private_key), _read(self.certificate))

    @property
    def options(self) -> tuple[ChannelOption, ...]:
        """The channel options that belong to it."""
        return () if self.server_name is None else (("grpc.ssl_target_name_override", self.server_name),)


class Access:
    """What a client makes of its `credentials` and `token`."""

    def __init__(
        self, target: Target, credentials: Tls | grpc.ChannelCredentials | None, token: str | Path | None
    ) -> None:
        """Raises ValueError for what cannot be, a token in plaintext beyond this host among it; OSError for files."""
        self.credentials = credentials.channel_credentials() if isinstance(credentials, Tls) else credentials
        """None: plaintext."""
        self.options: tuple[ChannelOption, ...] = credentials.options if isinstance(credentials, Tls) else ()
        """Channel options that belong to it."""
        self._token = None if token is None else Token(token)
        if self._token is not None and self.credentials is None:
            name = channel_target(target)
            if not is_on_this_host(name):
                raise ValueError(
                    f"Expected TLS for a token beyond this host, got plaintext to {name}: give credentials=Tls(...)"
                )
            # A proxy from the environment would read it.
            self.options = (("grpc.enable_http_proxy", 0),)

    def metadata(self, own: Sequence[tuple[str, str | bytes]]) -> tuple[tuple[str, str | bytes], ...]:
        """Return the metadata of a call that begins now: the caller's own, and the token unless it is among that."""
        if self._token is None or any(key == _AUTHORIZATION for key, _ in own):
            return tuple(own)
        return (*own, (_AUTHORIZATION, f"Bearer {self._token.latest()}"))

    def starting(self, call: Callable[..., CallT], own: Sequence[tuple[str, str | bytes]]) -> Callable[..., CallT]:
        """Return what begins a call with the metadata of that moment."""
        own = tuple(own)

        def start(*arguments: object, **options: object) -> CallT:
            return call(*arguments, **options, metadata=self.metadata(own))

        return start


def _read(content: Path | bytes | None) -> bytes | None:
    return content.read_bytes() if isinstance(content, Path) else content


def _check_certificates(content: bytes, source: Path | bytes | None) -> None:
    # gRPC takes anything, and then says at each call that it cannot connect.
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii"))
    except (ssl.SSLError, ValueError):
        where = f" in {source}" if isinstance(source, Path) else ""
        raise ValueError(f"Expected certificates of authorities as PEM{where}, got something else") from None
