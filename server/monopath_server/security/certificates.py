"""A server's certificate from files, read again when they change."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from monopath_server.security.settings import SecurityError, SecuritySettings
from monopath_server.security.watched import WatchedFiles, read_file, warn_of_readers

__all__ = ["CertificateFiles", "server_credentials"]


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where a server's certificate is, and what it trusts. All PEM."""

    certificate: Path
    private_key: Path
    client_ca: Path | None = None
    """Authorities of clients' certificates; None: clients need none."""

    @staticmethod
    def of(settings: SecuritySettings) -> CertificateFiles | None:
        """Return the files that are set, None where there is no TLS."""
        if settings.certificate_file is None or settings.private_key_file is None:
            return None
        return CertificateFiles(settings.certificate_file, settings.private_key_file, settings.client_ca_file)

    def __iter__(self) -> Iterator[Path]:
        yield from (self.certificate, self.private_key)
        if self.client_ca is not None:
            yield self.client_ca


def server_credentials(files: CertificateFiles) -> grpc.ServerCredentials:
    """Return credentials that follow the files: a new connection gets the newest certificate, a live one goes on.

    Files that do not go together, such as those of a change that is half done, leave the certificate of before.

    Raises:
        SecurityError: the files cannot be used to begin with.
    """
    watched = WatchedFiles("certificate", tuple(files), lambda: _read(files))
    warn_of_readers(files.private_key)
    given = watched.latest()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC at each handshake, in a thread of its own; None: as before."""
        nonlocal given
        latest = watched.latest()
        if latest is given:
            return None
        given = latest
        return latest

    return grpc.dynamic_ssl_server_credentials(
        given,
        fetch,  # type: ignore[arg-type]  # gRPC's types do not know of None
        require_client_authentication=files.client_ca is not None,
    )


def _read(files: CertificateFiles) -> grpc.ServerCertificateConfiguration:
    """Read and check everything before gRPC has it: its own complaints name no file."""
    certificate, private_key = read_file(files.certificate), read_file(files.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Python reads certificates from paths only; these lead to the very bytes that gRPC gets.
        with _as_path(certificate) as certificate_path, _as_path(private_key) as key_path:
            context.load_cert_chain(certificate_path, key_path, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        cause = getattr(error, "reason", None) or "the key is encrypted"
        raise SecurityError(
            f"Expected a certificate in {files.certificate} and its key in {files.private_key}, both as PEM, got "
            f"others: {cause.lower().replace('_', ' ')}"
        ) from None
    client_ca = None if files.client_ca is None else _read_client_ca(files.client_ca, context)
    return grpc.ssl_server_certificate_configuration([(private_key, certificate)], client_ca)


def _read_client_ca(file: Path, context: ssl.SSLContext) -> bytes:
    content = read_file(file)
    try:
        context.load_verify_locations(cadata=content.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise SecurityError(f"Expected certificates of authorities in {file}, as PEM, got something else") from None
    return content


def _no_password() -> str:
    # Without this a key that is encrypted would have its password asked for at the terminal.
    raise ValueError("Expected a key that is not encrypted")


@contextlib.contextmanager
def _as_path(content: bytes) -> Iterator[str]:
    """Give a path to bytes in memory: a key must not be written anywhere."""
    descriptor = os.memfd_create("monopath")
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"
