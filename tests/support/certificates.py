"""Authorities and certificates for tests, as files, and what a server shows to those who connect."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import trustme
from cryptography import x509

__all__ = ["Authority", "CertificatePair", "replace_file", "serial_shown_at"]


class CertificatePair:
    """A certificate and its key."""

    def __init__(self, certificate: bytes, private_key: bytes) -> None:
        self.certificate = certificate
        self.private_key = private_key
        self.serial = x509.load_pem_x509_certificate(self.certificate).serial_number

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Put it into `folder` as cert.pem and key.pem, in the place of what is there, and return both."""
        return replace_file(folder / "cert.pem", self.certificate), replace_file(folder / "key.pem", self.private_key)


class Authority:
    """Issues certificates."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self.certificate = self._authority.cert_pem.bytes()

    def pair(self, *names: str) -> CertificatePair:
        """Return a new certificate, of a server on this host unless names are given."""
        issued = self._authority.issue_cert(*(names or ("localhost", "127.0.0.1")))
        return CertificatePair(
            b"".join(part.bytes() for part in issued.cert_chain_pems), issued.private_key_pem.bytes()
        )

    def write(self, folder: Path, name: str = "ca.pem") -> Path:
        """Put the authority's own certificate into `folder`."""
        return replace_file(folder / name, self.certificate)


def replace_file(file: Path, content: bytes) -> Path:
    """Write a file as who has secrets should: all at once, and for its owner."""
    draft = file.with_name(f".{file.name}.draft")
    draft.touch(mode=0o600)
    draft.write_bytes(content)
    draft.replace(file)
    return file


def serial_shown_at(address: str) -> int:
    """Connect, and return the serial number of the certificate that the server shows. Blocks."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port)), timeout=30) as plain, context.wrap_socket(plain) as encrypted:
        shown = encrypted.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number
