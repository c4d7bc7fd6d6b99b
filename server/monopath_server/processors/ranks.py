"""Assignment of images to data-parallel ranks: greedy, longest first."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["RankAssignment", "assign_ranks"]


@dataclass(frozen=True, slots=True)
class RankAssignment:
    """Which rank encodes which image."""

    ranks: tuple[int, ...]
    """Rank of each image, by the image's index."""
    indices: tuple[tuple[int, ...], ...]
    """Indices of the images of each rank, in the order in which they were assigned to it."""
    loads: tuple[int, ...]
    """Sum of the sizes of each rank."""


def assign_ranks(sizes: Sequence[int], rank_count: int) -> RankAssignment:
    """Assign images to ranks so that the ranks' loads are even.

    Args:
        sizes: Patches of each image (t * h * w).
        rank_count: Number of ranks; a single rank keeps the natural order.

    The largest image comes first, ties by its index; it goes to the rank with the smallest load, ties to the lowest.

    Raises:
        ValueError: `rank_count` is below 1 or a size is negative.
    """
    if rank_count < 1:
        raise ValueError(f"Expected at least 1 rank, got {rank_count}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"Expected sizes of at least 0 patches, got {min(sizes)}")
    natural = range(len(sizes))
    order = natural if rank_count == 1 else sorted(natural, key=lambda index: -sizes[index])
    ranks = [0] * len(sizes)
    indices: list[list[int]] = [[] for _ in range(rank_count)]
    loads = [0] * rank_count
    lightest = [(0, rank) for rank in range(rank_count)]
    for index in order:
        load, rank = lightest[0]
        ranks[index] = rank
        indices[rank].append(index)
        loads[rank] = load + sizes[index]
        heapq.heapreplace(lightest, (loads[rank], rank))
    return RankAssignment(tuple(ranks), tuple(tuple(rank_indices) for rank_indices in indices), tuple(loads))
