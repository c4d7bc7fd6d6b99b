"""Settings that say who may reach a server, and how."""

from __future__ import annotations

from typing import Final

from monopath.cli.configuration.kinds import Bytes, Choice, Number, Switch
from monopath.cli.configuration.places import ExistingFile
from monopath.cli.configuration.setting import Group, Setting
from monopath_server.security.settings import Exposure

__all__ = ["SECURITY_ROWS"]

_MAX_COUNT = 1 << 40

SECURITY_ROWS: Final = (
    Setting(
        "tls_cert",
        ExistingFile(),
        "The server's certificate as PEM, those between it and its authority behind it. With it connections are "
        "encrypted. Read again when it changes; streams go on.",
        Group.SECURITY,
        sets="security.certificate_file",
        key="security.tls_cert",
    ),
    Setting(
        "tls_key",
        ExistingFile(),
        "The certificate's key as PEM, not encrypted.",
        Group.SECURITY,
        sets="security.private_key_file",
        key="security.tls_key",
    ),
    Setting(
        "tls_client_ca",
        ExistingFile(),
        "Certificates of authorities as PEM. With it every client has to show a certificate of one of them.",
        Group.SECURITY,
        sets="security.client_ca_file",
        key="security.tls_client_ca",
    ),
    Setting(
        "token_file",
        ExistingFile(),
        "Bearer tokens, one a line; lines that begin with # do not count. With it every call but those for health "
        "needs one of them. Read again when it changes.",
        Group.SECURITY,
        sets="security.token_file",
        key="security.token_file",
    ),
    Setting(
        "insecure",
        Switch(),
        "Listen beyond this host without TLS: something else protects the network, such as a mesh.",
        Group.SECURITY,
        sets="security.insecure",
        key="security.insecure",
    ),
    Setting(
        "reflection",
        Choice(Exposure),
        "Whether the contract can be asked for. auto: only where nobody beyond this host can ask.",
        Group.SECURITY,
        sets="security.reflection",
        key="security.reflection",
    ),
    Setting(
        "channelz",
        Switch(),
        "Answer for gRPC's own counters of connections and streams; only where nobody beyond this host can ask.",
        Group.SECURITY,
        sets="security.channelz",
        key="security.channelz",
    ),
    Setting(
        "max_peer_streams",
        Number("STREAMS", low=0, high=_MAX_COUNT),
        "Most streams of one client: one certificate, or one token, or else one host. 0: as many as all together.",
        Group.SECURITY,
        sets="security.max_peer_streams",
        key="security.max_peer_streams",
        default_text="0: as many as all together",
    ),
    Setting(
        "max_peer_items",
        Number("IMAGES", low=0, high=_MAX_COUNT),
        "Most images without a result of one client. 0: as many as all together.",
        Group.SECURITY,
        sets="security.max_peer_items",
        key="security.max_peer_items",
    ),
    Setting(
        "max_peer_bytes",
        Bytes(low=0),
        "The same in bytes, of images and of their features.",
        Group.SECURITY,
        sets="security.max_peer_bytes",
        key="security.max_peer_bytes",
    ),
    Setting(
        "max_peer_pixels",
        Number("PIXELS", low=0, high=_MAX_COUNT),
        "The same in pixels.",
        Group.SECURITY,
        sets="security.max_peer_pixels",
        key="security.max_peer_pixels",
    ),
)
"""In the order in which they are listed."""
