"""Results as one batch of torch tensors, and the look-up that finishes uint8 features. Imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np
import torch

from monopath._paths import PathT, PreprocessingPath
from monopath._results import Result, one_batch

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["TensorBatch", "batch", "normalize"]


@dataclass(frozen=True, slots=True, eq=False)
class TensorBatch(Generic[PathT]):
    """Features of several images of one path, as an encoder reads them."""

    path: PreprocessingPath
    pixel_values: torch.Tensor
    """Rows of all images, one after another: [sum of rows, ...]; on the GPU where the results are there."""
    grid_thws: torch.Tensor
    """Patch grid of each image: int64 [images, 3], on the CPU."""
    token_counts: tuple[int, ...]
    ids: tuple[int, ...]
    config_sha256: bytes


def batch(results: Iterable[Result[PathT]]) -> TensorBatch[PathT]:
    """Put copies of the features of one or more images after each other; the results may be released then.

    Raises the first failed item's `ItemError`, and ValueError for no results or for ones of different paths, configs or
    element types. `monopath.concatenate` is the same in numpy.
    """
    ordered = one_batch(results)
    grids = [result.plan.grid_thw for result in ordered if result.plan.grid_thw is not None]
    return TensorBatch(
        path=ordered[0].path,
        pixel_values=torch.cat([result.torch() for result in ordered]),
        grid_thws=torch.tensor([(grid.t, grid.h, grid.w) for grid in grids], dtype=torch.int64).reshape(-1, 3),
        token_counts=tuple(result.plan.token_count for result in ordered),
        ids=tuple(result.id for result in ordered),
        config_sha256=ordered[0].provenance.config_sha256,
    )


def normalize(
    pixel_values: torch.Tensor, table: npt.NDArray[np.float32], data_type: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """Return uint8 features finished by `ready.normalize_table`, on the device that they are on.

    The bytes are those that a stream of that element type gives. `pixel_values` is uint8 [rows, 3, ...]. Raises
    ValueError for another element type or shape.
    """
    if pixel_values.dtype != torch.uint8 or pixel_values.ndim < 2 or pixel_values.shape[1] != 3:
        raise ValueError(
            f"Expected uint8 features of shape [rows, 3, ...], got {pixel_values.dtype} {list(pixel_values.shape)}"
        )
    if table.shape != (3, 256):
        raise ValueError(f"Expected a table of shape [3, 256], got {list(table.shape)}")
    # Rounded before the look-up: 768 roundings instead of one for each element.
    columns = torch.from_numpy(np.array(table)).to(data_type).to(pixel_values.device)
    finished = torch.empty(pixel_values.shape, dtype=data_type, device=pixel_values.device)
    for channel in range(3):
        finished[:, channel] = columns[channel][pixel_values[:, channel].long()]
    return finished
