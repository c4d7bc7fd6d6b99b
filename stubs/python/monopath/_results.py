"""What becomes of one item: features, or the item's error as a value. Generic in the path that made the features."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import ml_dtypes
import numpy as np

from monopath._paths import PathT, PreprocessingPath

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt
    import torch

    from monopath._errors import ItemError
    from monopath._records import FeatureArray, ImagePlan, ItemTimings, Provenance

__all__ = ["FeatureBatch", "PlanEvent", "Result", "concatenate", "torch_tensor"]

_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """What will come of an item, told before a pixel of it is decoded."""

    id: int
    label: str
    path: PreprocessingPath
    plan: ImagePlan


class Result(Generic[PathT]):
    """The one end of an item: its features, or its error.

    `plan`, `array`, `provenance` and `timings` raise the item's own `ItemError` where the item has none of them.
    """

    __slots__ = ("_array", "_plan", "_provenance", "_timings", "error", "id", "label", "path")

    def __init__(
        self,
        *,
        item_id: int,
        label: str,
        path: PreprocessingPath,
        error: ItemError | None = None,
        plan: ImagePlan | None = None,
        array: FeatureArray | None = None,
        provenance: Provenance | None = None,
        timings: ItemTimings | None = None,
    ) -> None:
        self.id = item_id
        """The item's id on its stream, as `send` returned it."""
        self.label = label
        """The item's label, as it was sent."""
        self.path = path
        """The path that the item took; the value of the type argument."""
        self.error = error
        """Why the item has no features. None where it has."""
        self._plan = plan
        self._array = array
        self._provenance = provenance
        self._timings = timings

    @property
    def ok(self) -> bool:
        """The item has features."""
        return self.error is None

    def raise_for_error(self) -> None:
        """Raise the item's `ItemError`, if it has one."""
        if self.error is not None:
            raise self.error

    @property
    def plan(self) -> ImagePlan:
        """Geometry, token count and tensor. A failed item has one if it failed after its plan was made."""
        return self._present(self._plan)

    @property
    def array(self) -> FeatureArray:
        """The features, [rows, channels, patch height, patch width], in the stream's element type; writable."""
        return self._present(self._array)

    @property
    def provenance(self) -> Provenance:
        """From what and by what the features were made."""
        return self._present(self._provenance)

    @property
    def timings(self) -> ItemTimings:
        """Where the time went."""
        return self._present(self._timings)

    def torch(self) -> torch.Tensor:
        """Return the features as a tensor that shares `array`'s memory. Raises ImportError where torch is missing."""
        return torch_tensor(self.array)

    def sha256(self) -> str:
        """Return the SHA-256 of the features' bytes, in hexadecimal."""
        return hashlib.sha256(self.array.reshape(-1).view(np.uint8).data).hexdigest()

    def _present(self, value: _ValueT | None) -> _ValueT:
        if value is None:
            self.raise_for_error()
            raise AssertionError("Expected a result without error to be complete")
        return value

    def __repr__(self) -> str:
        end = f"shape={list(self.array.shape)}" if self.error is None else f"error={self.error.reason}"
        return f"Result(id={self.id}, label={self.label!r}, path={self.path}, {end})"


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBatch(Generic[PathT]):
    """Features of several images of one path, as an encoder reads them."""

    path: PreprocessingPath
    pixel_values: FeatureArray
    """Rows of all images, one after another: [sum of rows, channels, patch height, patch width]."""
    grid_thws: npt.NDArray[np.int64]
    """Patch grid of each image: int64 [images, 3]."""
    token_counts: tuple[int, ...]
    ids: tuple[int, ...]
    config_sha256: bytes

    def torch(self) -> torch.Tensor:
        """Return `pixel_values` as a tensor that shares their memory. Raises ImportError where torch is missing."""
        return torch_tensor(self.pixel_values)


def concatenate(results: Iterable[Result[PathT]]) -> FeatureBatch[PathT]:
    """Put the features of one or more images after each other.

    Raises the first failed item's `ItemError`, and ValueError for no results or for ones of different paths, configs or
    element types.
    """
    ordered = tuple(results)
    if not ordered:
        raise ValueError("Expected at least one result, got none")
    first = ordered[0]
    for result in ordered:
        if (result.path, result.provenance.config_sha256, result.array.dtype) != (
            first.path,
            first.provenance.config_sha256,
            first.array.dtype,
        ):
            raise ValueError(
                f"Expected results of one path, config and element type, got {result.path} {result.array.dtype} "
                f"{result.provenance.config_sha256.hex()[:12]} after {first.path} {first.array.dtype} "
                f"{first.provenance.config_sha256.hex()[:12]}"
            )
    grids = [result.plan.grid_thw for result in ordered]
    return FeatureBatch(
        path=first.path,
        pixel_values=np.concatenate([result.array for result in ordered]),
        grid_thws=np.array([(grid.t, grid.h, grid.w) for grid in grids], dtype=np.int64),
        token_counts=tuple(result.plan.token_count for result in ordered),
        ids=tuple(result.id for result in ordered),
        config_sha256=first.provenance.config_sha256,
    )


def torch_tensor(array: FeatureArray) -> torch.Tensor:
    """Return a tensor that shares the array's memory, bfloat16 included. Raises ImportError where torch is missing."""
    # Imported here: the client works without torch, and most of its users have no use for it.
    import torch

    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
