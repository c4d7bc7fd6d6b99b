"""The options that say which server a command talks to, and how it is let in there."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from monopath import Tls
from monopath.cli.signatures import own_parameters, with_parameters

__all__ = ["ServerChoice", "with_server"]


def _file(variable: str, help_text: str) -> Any:
    return typer.Option(envvar=variable, metavar="FILE", help=help_text, show_default=False)


_ADDRESS_OPTION = typer.Option(
    envvar="MONOPATH_SERVER",
    metavar="ADDRESS",
    help="A running server: host:port or unix:/path. Without it the command starts one of its own and stops it again "
    "(needs monopath[server]).",
    show_default=False,
)
_TLS_OPTION = typer.Option(
    "--tls",
    envvar="MONOPATH_TLS",
    help="The server has TLS, with a certificate of a public authority.",
    show_default=False,
)
_TLS_CA_OPTION = _file("MONOPATH_TLS_CA", "The server has TLS, with a certificate of an authority in this file (PEM).")
_TLS_CERT_OPTION = _file(
    "MONOPATH_TLS_CLIENT_CERT", "This side's certificate (PEM), for a server with TLS that wants one."
)
_TLS_KEY_OPTION = _file("MONOPATH_TLS_CLIENT_KEY", "The key of --tls-cert (PEM).")
_TOKEN_FILE_OPTION = _file(
    "MONOPATH_TOKEN_FILE",
    "Send the first token of this file, for a server that wants one. The variable MONOPATH_TOKEN may hold the token "
    "itself.",
)


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """A running server, and what it takes to be let in."""

    address: str
    credentials: Tls | None = None
    token: str | Path | None = None


def with_server(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, in place of its parameter `server`, the options that say which server it talks to.

    The command gets a `ServerChoice`; None where it is to start a server, which lets everything in.
    """
    options = own_parameters(_choose_server)
    parameters: list[inspect.Parameter] = []
    for parameter in own_parameters(command):
        parameters += options if parameter.name == "server" else [parameter]

    def run(**values: Any) -> None:
        chosen = _choose_server(**{option.name: values.pop(option.name) for option in options})
        command(**values, server=chosen)

    return with_parameters(command, parameters, run=run)


def _choose_server(
    server: Annotated[str | None, _ADDRESS_OPTION] = None,
    tls: Annotated[bool, _TLS_OPTION] = False,
    tls_ca: Annotated[Path | None, _TLS_CA_OPTION] = None,
    tls_cert: Annotated[Path | None, _TLS_CERT_OPTION] = None,
    tls_key: Annotated[Path | None, _TLS_KEY_OPTION] = None,
    token_file: Annotated[Path | None, _TOKEN_FILE_OPTION] = None,
) -> ServerChoice | None:
    """The options themselves, and what comes of them."""
    if server is None:
        return None
    has_tls = tls or tls_ca is not None or tls_cert is not None or tls_key is not None
    credentials = Tls(root_certificates=tls_ca, certificate=tls_cert, private_key=tls_key) if has_tls else None
    return ServerChoice(server, credentials, token_file or os.environ.get("MONOPATH_TOKEN") or None)
