"""Results that no stream has to give, to try what must not go together."""

from __future__ import annotations

from typing import Any

import numpy as np

from monopath import FeatureArray, GridThw, ImagePlan, ItemError, Padding, PreprocessingPath, Provenance, Result, Size
from monopath._carriers import Features

CONFIG_SHA256 = b"c" * 32


def handmade(
    *,
    path: PreprocessingPath = PreprocessingPath.DEFERRED_CPU,
    array: FeatureArray | None = None,
    config_sha256: bytes = CONFIG_SHA256,
    content_sha256: bytes = b"i" * 32,
    original_size: Size = Size(5, 4),  # noqa: B008  # frozen
    item_id: int = 1,
) -> Result[Any]:
    """A complete result of one path. Its features are float32 [4, 3, 2, 2] unless others are given."""
    features = np.arange(48, dtype=np.float32).reshape(4, 3, 2, 2) if array is None else array
    plan = ImagePlan(
        original_size=original_size,
        resized_size=Size(4, 4),
        padding=Padding(0, 0),
        grid_thw=GridThw(1, 2, 2),
        token_count=1,
        data_type=features.dtype.name,
        shape=features.shape,
        size_bytes=features.nbytes,
    )
    return Result(
        item_id=item_id,
        label="",
        path=path,
        plan=plan,
        features=Features(array=features),
        provenance=Provenance(
            path=path,
            config_sha256=config_sha256,
            content_sha256=content_sha256,
            resample_kernel="pillow_13",
            route="host",
            pillow_version="",
            server_version="9",
        ),
    )


def failed() -> Result[Any]:
    """A result without features."""
    return Result(
        item_id=7,
        label="",
        path=PreprocessingPath.DEFERRED_CPU,
        error=ItemError("IMAGE_DAMAGED", "no image", item_id=7),
    )
