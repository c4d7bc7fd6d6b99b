"""The options of `monopath serve` that say who may reach it, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from monopath.cli.values import bytes_between
from monopath_server.security.settings import Exposure

__all__ = [
    "ChannelzOption",
    "InsecureOption",
    "PeerBytesOption",
    "PeerItemsOption",
    "PeerPixelsOption",
    "PeerStreamsOption",
    "ReflectionOption",
    "TlsCertificateOption",
    "TlsClientAuthoritiesOption",
    "TlsKeyOption",
    "TokenFileOption",
]

_MAX_COUNT = 1 << 40


def _file(option: str, help_text: str) -> Any:
    variable = "MONOPATH_" + option.removeprefix("--").replace("-", "_").upper()
    return typer.Option(option, envvar=variable, metavar="FILE", help=help_text, show_default=False)


def _flag(option: str, help_text: str) -> Any:
    variable = "MONOPATH_" + option.removeprefix("--").replace("-", "_").upper()
    return typer.Option(option, envvar=variable, help=help_text, show_default="off")


def _count(name: str, metavar: str, help_text: str) -> Any:
    return typer.Option(
        envvar=f"MONOPATH_{name}",
        metavar=metavar,
        min=0,
        max=_MAX_COUNT,
        help=f"{help_text} 0: as many as all together.",
    )


TlsCertificateOption: TypeAlias = Annotated[
    Path | None,
    _file(
        "--tls-cert",
        "The server's certificate as PEM, those between it and its authority behind it. With it connections are "
        "encrypted. Read again when it changes; streams go on.",
    ),
]
TlsKeyOption: TypeAlias = Annotated[Path | None, _file("--tls-key", "The certificate's key as PEM, not encrypted.")]
TlsClientAuthoritiesOption: TypeAlias = Annotated[
    Path | None,
    _file(
        "--tls-client-ca",
        "Certificates of authorities as PEM. With it every client has to show a certificate of one of them.",
    ),
]
TokenFileOption: TypeAlias = Annotated[
    Path | None,
    _file(
        "--token-file",
        "Bearer tokens, one a line; lines that begin with # do not count. With it every call but those for health "
        "needs one of them. Read again when it changes.",
    ),
]
InsecureOption: TypeAlias = Annotated[
    bool,
    _flag("--insecure", "Listen beyond this host without TLS: something else protects the network, such as a mesh."),
]
ReflectionOption: TypeAlias = Annotated[
    Exposure,
    typer.Option(
        envvar="MONOPATH_REFLECTION",
        help="Whether the contract can be asked for. auto: only where nobody beyond this host can ask.",
    ),
]
ChannelzOption: TypeAlias = Annotated[
    bool,
    _flag(
        "--channelz",
        "Answer for gRPC's own counters of connections and streams; only where nobody beyond this host can ask.",
    ),
]
PeerStreamsOption: TypeAlias = Annotated[
    int,
    _count(
        "MAX_PEER_STREAMS",
        "STREAMS",
        "Most streams of one client: one certificate, or one token, or else one host.",
    ),
]
PeerItemsOption: TypeAlias = Annotated[
    int, _count("MAX_PEER_ITEMS", "IMAGES", "Most images without a result of one client.")
]
PeerBytesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        envvar="MONOPATH_MAX_PEER_BYTES",
        metavar="BYTES",
        parser=bytes_between(0, 1 << 40),
        help="The same in bytes, of images and of their features.",
        show_default="0",
    ),
]
PeerPixelsOption: TypeAlias = Annotated[int, _count("MAX_PEER_PIXELS", "PIXELS", "The same in pixels.")]
