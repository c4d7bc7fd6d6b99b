"""Results as a safetensors file, or its bytes, with where they come from. Needs the package `safetensors` to write.

Each image has the tensors `<id>.pixel_values` and `<id>.grid_thw` (int64 [3]), as `monopath preprocess --out` writes
them; the metadata have path, config, element type, and by id label, content digest, original size and token count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from monopath._paths import PathT
from monopath._results import Result, one_batch

__all__ = ["dumps", "save"]


def dumps(results: Iterable[Result[PathT]]) -> bytes:
    """Return the bytes of a safetensors file with these results.

    Raises the first failed item's `ItemError`, ValueError for no results, for ones of different paths, configs or
    element types and for two of one id, RuntimeError where features are on a GPU or were released, and ImportError
    where safetensors is missing.
    """
    from safetensors.numpy import save as save_bytes

    ordered = one_batch(results)
    tensors: dict[str, np.ndarray] = {}
    items: dict[str, dict[str, object]] = {}
    for result in ordered:
        plan, key = result.plan, str(result.id)
        if key in items:
            raise ValueError(f"Expected each id once, got {key} twice")
        tensors[f"{key}.pixel_values"] = np.ascontiguousarray(result.array)
        if (grid := plan.grid_thw) is not None:
            tensors[f"{key}.grid_thw"] = np.array([grid.t, grid.h, grid.w], np.int64)
        items[key] = {
            "label": result.label,
            "content_sha256": result.provenance.content_sha256.hex(),
            "original_size": [plan.original_size.width_px, plan.original_size.height_px],
            "token_count": plan.token_count,
        }
    first = ordered[0]
    metadata = {
        "path": str(first.path),
        "config_sha256": first.provenance.config_sha256.hex(),
        "data_type": str(first.plan.data_type),
        "server_version": first.provenance.server_version,
        "items": json.dumps(items),
    }
    return save_bytes(tensors, metadata=metadata)


def save(results: Iterable[Result[PathT]], path: Path) -> None:
    """Write the file, all or nothing. Raises as `dumps`, and OSError."""
    data = dumps(results)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
