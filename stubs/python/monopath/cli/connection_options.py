"""The options that say which server a command talks to, and how it is let in there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from monopath import Tls

__all__ = [
    "ServerChoice",
    "ServerOption",
    "TlsAuthoritiesOption",
    "TlsCertificateOption",
    "TlsKeyOption",
    "TlsOption",
    "TokenFileOption",
    "choose_server",
]


def _file(variable: str, help_text: str) -> Any:
    return typer.Option(envvar=variable, metavar="FILE", help=help_text, show_default=False)


ServerOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="MONOPATH_SERVER",
        metavar="ADDRESS",
        help="A running server: host:port or unix:/path. Without it the command starts one of its own and stops it "
        "again (needs monopath[server]).",
        show_default=False,
    ),
]
TlsOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--tls",
        envvar="MONOPATH_TLS",
        help="The server has TLS, with a certificate of a public authority.",
        show_default=False,
    ),
]
TlsAuthoritiesOption: TypeAlias = Annotated[
    Path | None,
    _file("MONOPATH_TLS_CA", "The server has TLS, with a certificate of an authority in this file (PEM)."),
]
TlsCertificateOption: TypeAlias = Annotated[
    Path | None,
    _file("MONOPATH_TLS_CLIENT_CERT", "This side's certificate (PEM), for a server with TLS that wants one."),
]
TlsKeyOption: TypeAlias = Annotated[Path | None, _file("MONOPATH_TLS_CLIENT_KEY", "The key of --tls-cert (PEM).")]
TokenFileOption: TypeAlias = Annotated[
    Path | None,
    _file(
        "MONOPATH_TOKEN_FILE",
        "Send the first token of this file, for a server that wants one. The variable MONOPATH_TOKEN may hold the "
        "token itself.",
    ),
]


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """A running server, and what it takes to be let in."""

    address: str
    credentials: Tls | None = None
    token: str | Path | None = None


def choose_server(
    address: str | None,
    *,
    tls: bool,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    token_file: Path | None,
) -> ServerChoice | None:
    """Return the server that was chosen, None where the command is to start one, which lets everything in."""
    if address is None:
        return None
    has_tls = tls or tls_ca is not None or tls_cert is not None or tls_key is not None
    credentials = Tls(root_certificates=tls_ca, certificate=tls_cert, private_key=tls_key) if has_tls else None
    return ServerChoice(address, credentials, token_file or os.environ.get("MONOPATH_TOKEN") or None)
