"""What becomes of one item: features, or the item's error as a value. Generic in the path that made the features."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import ml_dtypes
import numpy as np

from monopath._paths import PathT, PreprocessingPath

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import numpy.typing as npt
    import torch

    from monopath._carriers import Features
    from monopath._errors import ItemError
    from monopath._records import FeatureArray, ImagePlan, ItemTimings, Provenance

__all__ = ["FeatureBatch", "PlanEvent", "Result", "concatenate", "one_batch", "torch_tensor"]

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

    Features may lie in memory of the server's, which has it back when nothing refers to the array any more. `release`
    says so earlier, and so does the end of a `with` statement: `with result: encode(result.array)`.
    """

    __slots__ = (
        "_array", "_lease", "_plan", "_provenance", "_released", "_tensor", "_timings",
        "cache", "error", "id", "label", "path",
    )  # fmt: skip

    def __init__(
        self,
        *,
        item_id: int,
        label: str,
        path: PreprocessingPath,
        error: ItemError | None = None,
        plan: ImagePlan | None = None,
        features: Features | None = None,
        provenance: Provenance | None = None,
        timings: ItemTimings | None = None,
        cache: str | None = None,
    ) -> None:
        self.id = item_id
        """The item's id on its stream, as `send` returned it."""
        self.label = label
        """The item's label, as it was sent."""
        self.path = path
        """The path that the item took; the value of the type argument."""
        self.error = error
        """Why the item has no features. None where it has."""
        self.cache = cache
        """A `CacheOutcome`. None for LOCAL, for failed items, and where the server does not say."""
        self._plan = plan
        self._array = None if features is None else features.array
        self._tensor = None if features is None else features.tensor
        self._lease = None if features is None else features.lease
        self._provenance = provenance
        self._timings = timings
        self._released = False

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
        """The features, [rows, channels, patch height, patch width], in the stream's element type; writable.

        Writes to it are this process's own, wherever it lies. Raises RuntimeError after `release`, and where the
        features are on a GPU.
        """
        self._check_held()
        if self._tensor is not None:
            raise RuntimeError("Expected features that the CPU can read, got them on a GPU: use tensor, or torch()")
        return self._present(self._array)

    @property
    def tensor(self) -> torch.Tensor:
        """The features on the GPU that made them, on a stream over CUDA IPC; not to be written to.

        Raises RuntimeError after `release`, and where the features are not on a GPU.
        """
        self._check_held()
        if self._tensor is None:
            raise RuntimeError("Expected features on a GPU, got them in the CPU's memory: use array, or torch()")
        return self._tensor

    @property
    def provenance(self) -> Provenance:
        """From what and by what the features were made."""
        return self._present(self._provenance)

    @property
    def timings(self) -> ItemTimings:
        """Where the time went."""
        return self._present(self._timings)

    def torch(self) -> torch.Tensor:
        """Return the features as a tensor, without a copy: on a GPU where they are there, else of `array`'s memory.

        Raises ImportError where torch is missing, and RuntimeError after `release`.
        """
        self._check_held()
        return torch_tensor(self.array) if self._tensor is None else self._tensor

    def release(self) -> None:
        """Read the features no more, so that the server has their memory back. Calling it again does nothing.

        `array` cannot be used after that. What was taken from it before, such as slices and tensors, must not be read
        any more either: where features came in shared memory, the server may write another item's there.
        """
        self._released = True
        self._array = self._tensor = None
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.release()

    def sha256(self) -> str:
        """Return the SHA-256 of the features' bytes, in hexadecimal."""
        return hashlib.sha256(self.array.reshape(-1).view(np.uint8).data).hexdigest()

    def _check_held(self) -> None:
        self.raise_for_error()
        if self._released or (self._lease is not None and self._lease.released):
            raise RuntimeError("Expected held features, got released ones: copy what is needed for longer")

    def _present(self, value: _ValueT | None) -> _ValueT:
        if value is None:
            self.raise_for_error()
            raise AssertionError("Expected a result without error to be complete")
        return value

    def __repr__(self) -> str:
        end = f"shape={list(self.plan.shape)}" if self.error is None else f"error={self.error.reason}"
        return f"Result(id={self.id}, label={self.label!r}, path={self.path}, {end})"


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBatch(Generic[PathT]):
    """Features of several images of one path, as an encoder reads them."""

    path: PreprocessingPath
    pixel_values: FeatureArray
    """Rows of all images, one after another: [sum of rows, channels, height, width]."""
    grid_thws: npt.NDArray[np.int64]
    """Patch grid of each image: int64 [images, 3]; [0, 3] for a family that has none."""
    token_counts: tuple[int, ...]
    ids: tuple[int, ...]
    config_sha256: bytes
    row_counts: tuple[int, ...] = ()
    """Rows of each image."""

    def torch(self) -> torch.Tensor:
        """Return `pixel_values` as a tensor that shares their memory. Raises ImportError where torch is missing."""
        return torch_tensor(self.pixel_values)


def one_batch(results: Iterable[Result[PathT]]) -> tuple[Result[PathT], ...]:
    """Return results that may go to an encoder together.

    Raises the first failed item's `ItemError`, and ValueError for no results or for ones of different paths, configs or
    element types.
    """
    ordered = tuple(results)
    if not ordered:
        raise ValueError("Expected at least one result, got none")
    first, *others = [(result.path, result.plan.data_type, result.provenance.config_sha256) for result in ordered]
    for other in others:
        if other != first:
            got, expected = (f"{path} {data_type} {digest.hex()[:12]}" for path, data_type, digest in (other, first))
            raise ValueError(f"Expected results of one path, config and element type, got {got} after {expected}")
    return ordered


def concatenate(results: Iterable[Result[PathT]]) -> FeatureBatch[PathT]:
    """Put copies of the features of one or more images after each other; the results may be released then.

    Raises the first failed item's `ItemError`, and ValueError for no results or for ones of different paths, configs or
    element types.
    """
    ordered = one_batch(results)
    first = ordered[0]
    grids = [result.plan.grid_thw for result in ordered if result.plan.grid_thw is not None]
    return FeatureBatch(
        path=first.path,
        pixel_values=np.concatenate([result.array for result in ordered]),
        grid_thws=np.array([(grid.t, grid.h, grid.w) for grid in grids], dtype=np.int64).reshape(-1, 3),
        token_counts=tuple(result.plan.token_count for result in ordered),
        ids=tuple(result.id for result in ordered),
        config_sha256=first.provenance.config_sha256,
        row_counts=tuple(len(result.array) for result in ordered),
    )


def torch_tensor(array: FeatureArray) -> torch.Tensor:
    """Return a tensor that shares the array's memory, bfloat16 included. Raises ImportError where torch is missing."""
    # Imported here: the client works without torch, and most of its users have no use for it.
    import torch

    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
