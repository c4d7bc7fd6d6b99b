"""One digest for one meaning: SHA-256 over a canonical form of a processor config."""

from __future__ import annotations

import hashlib
import json

from monopath_server.processors.family import ProcessorConfig

__all__ = ["config_digest"]

_FORM = "monopath.processor-config.v1"


def config_digest(config: ProcessorConfig) -> bytes:
    """Return the SHA-256 (32 bytes) over every field that can change a pixel or a token count.

    Floats enter as their 64 bits, since a difference far behind the comma can change a byte.
    """
    form = {"form": _FORM, "family": config.family, **config.canonical_form()}
    text = json.dumps(form, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).digest()
