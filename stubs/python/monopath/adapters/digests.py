"""What engines know features by, in caches of embeddings and prefixes: equal digests, equal features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

from monopath._paths import PreprocessingPath
from monopath._results import Result

__all__ = ["MediaDigest", "feature_digest", "media_digest"]

MediaDigest: TypeAlias = Callable[[Result[Any]], bytes]
"""Gives 32 bytes for a result."""


def media_digest(result: Result[Any]) -> bytes:
    """Return a SHA-256 of what the features follow from, so that they need not be read: content, config, element type.

    It is the same on both deferred paths, as the features are. The content digest is the server's own, of the bytes as
    they were sent. A file and raw pixels that are the same bytes, and give the same sizes, are not told apart: use
    `feature_digest` where that can be. What a LOCAL client declares is no evidence, so there the features are hashed.
    """
    provenance = result.provenance
    if result.path is PreprocessingPath.LOCAL or not provenance.content_sha256:
        return feature_digest(result)
    plan = result.plan
    text = (
        f"monopath media 1 {provenance.content_sha256.hex()} {provenance.config_sha256.hex()} {plan.data_type} "
        f"{plan.original_size.width_px}x{plan.original_size.height_px} {list(plan.shape)}"
    )
    return hashlib.sha256(text.encode()).digest()


def feature_digest(result: Result[Any]) -> bytes:
    """Return a SHA-256 of the features themselves, their shape and their element type; reads them once.

    Raises RuntimeError where they are on a GPU, or were released.
    """
    plan = result.plan
    grid = "" if plan.grid_thw is None else f"{plan.grid_thw.t}x{plan.grid_thw.h}x{plan.grid_thw.w}"
    text = f"monopath features 1 {result.sha256()} {plan.data_type} {list(plan.shape)} {grid}"
    return hashlib.sha256(text.encode()).digest()
