"""Where and how a server is reached: its address with or without TLS, who is let in, what it tells about itself."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
from grpc_channelz.v1 import channelz, channelz_pb2
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from monopath_server.security.certificates import CertificateFiles, server_credentials
from monopath_server.security.settings import SecuritySettings, check_security
from monopath_server.security.tokens import Tokens
from monopath_server.serving.authentication import TokenInterceptor
from monopath_server.serving.health import SERVICE_NAME

__all__ = ["Listener"]

UNIX = "unix:"


class Listener:
    """All that `SecuritySettings` make of a gRPC server. To make one is to check them, files included."""

    def __init__(self, address: str, settings: SecuritySettings) -> None:
        """`address` is `host:port` or `unix:/path`.

        Raises:
            SecurityError: the settings contradict each other or the address, or a file of theirs cannot be used.
        """
        check_security(address, settings)
        self._address = address
        self._settings = settings
        files = CertificateFiles.of(settings)
        self._credentials = None if files is None else server_credentials(files)
        self.interceptors: tuple[TokenInterceptor, ...] = ()
        """What the server has to be made with."""
        if settings.token_file is not None:
            self.interceptors = (TokenInterceptor(Tokens(settings.token_file)),)

    @property
    def refused_count(self) -> int:
        """Calls that were refused for want of a token. Safe to read in every thread."""
        return sum(interceptor.refused_count for interceptor in self.interceptors)

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """What the server has to be made with."""
        return (("grpc.enable_channelz", int(self._settings.channelz)),)

    def add_services(self, server: grpc.aio.Server) -> None:
        """Add the services that tell about the server itself, where they are to be."""
        names = [SERVICE_NAME, health.SERVICE_NAME]
        if self._settings.channelz:
            channelz.add_channelz_servicer(server)
            names.append(channelz_pb2.DESCRIPTOR.services_by_name["Channelz"].full_name)
        if self._settings.shows_reflection_at(self._address):
            reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)

    def listen(self, server: grpc.aio.Server) -> str:
        """Bind the address, and return it with the port that was chosen. Raises RuntimeError where that fails."""
        if self._address.startswith(UNIX):
            # gRPC makes the socket as the umask says. It belongs to the process, so it is only ever made stricter, and
            # for this instant; what else is made meanwhile keeps its owner's rights.
            umask = os.umask(0o077)
            try:
                self._bind(server)
            finally:
                os.umask(umask)
            Path(self._address.removeprefix(UNIX)).chmod(0o600)
            return self._address
        host, _, _ = self._address.rpartition(":")
        return f"{host}:{self._bind(server)}"

    def _bind(self, server: grpc.aio.Server) -> int:
        if self._credentials is None:
            return server.add_insecure_port(self._address)
        return server.add_secure_port(self._address, self._credentials)
