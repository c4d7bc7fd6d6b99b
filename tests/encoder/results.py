"""Results as a stream gives them, without a stream."""

from __future__ import annotations

from typing import Any

from monopath import DeferredCpu, GridThw, ImagePlan, Padding, PreprocessingPath, Provenance, Result, Size
from monopath._carriers import Features

__all__ = ["result_of"]


def result_of(rows: Any, height: int, width: int, *, config_sha256: bytes = b"") -> Result[DeferredCpu]:
    """Return the result of an image of `height` x `width` patches, whose features are `rows`."""
    size = Size(14 * width, 14 * height)
    plan = ImagePlan(
        original_size=size,
        resized_size=size,
        padding=Padding(0, 0),
        grid_thw=GridThw(1, height, width),
        token_count=height * width // 4,
        data_type="float32",
        shape=rows.shape,
        size_bytes=rows.nbytes,
    )
    provenance = Provenance(
        path=PreprocessingPath.DEFERRED_CPU,
        config_sha256=config_sha256,
        content_sha256=b"",
        resample_kernel="pillow_13",
        route="host",
        pillow_version="",
        server_version="",
    )
    return Result(
        item_id=1,
        label="",
        path=PreprocessingPath.DEFERRED_CPU,
        plan=plan,
        features=Features(array=rows),
        provenance=provenance,
    )
