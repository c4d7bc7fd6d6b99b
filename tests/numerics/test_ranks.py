"""Assignment of images to data-parallel ranks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monopath_server.processors.ranks import assign_ranks


@pytest.mark.parametrize(
    ("sizes", "rank_count", "indices", "loads"),
    [
        ([1000, 100, 200, 50], 2, ((0,), (2, 1, 3)), (1000, 350)),
        ([8, 5, 3], 2, ((0,), (1, 2)), (8, 8)),
        ([4] * 5, 2, ((0, 2, 4), (1, 3)), (12, 8)),
        ([4], 4, ((0,), (), (), ()), (4, 0, 0, 0)),
        ([16384, 16900, 4, 1360, 1360, 4], 4, ((1,), (0,), (3, 2), (4, 5)), (16900, 16384, 1364, 1364)),
        ([], 3, ((), (), ()), (0, 0, 0)),
        ([1, 3, 2], 1, ((0, 1, 2),), (6,)),
    ],
)
def test_the_published_assignments_hold(
    sizes: list[int], rank_count: int, indices: tuple[tuple[int, ...], ...], loads: tuple[int, ...]
) -> None:
    assignment = assign_ranks(sizes, rank_count)

    assert assignment.indices == indices
    assert assignment.loads == loads


@given(st.lists(st.integers(0, 1000), max_size=50), st.integers(1, 9))
def test_every_image_has_one_rank_and_loads_are_near_even(sizes: list[int], rank_count: int) -> None:
    assignment = assign_ranks(sizes, rank_count)

    assert sorted(itertools.chain(*assignment.indices)) == list(range(len(sizes)))
    for rank, indices in enumerate(assignment.indices):
        assert all(assignment.ranks[index] == rank for index in indices)
        assert assignment.loads[rank] == sum(sizes[index] for index in indices)
    # Longest first never leaves a gap wider than the largest image.
    assert max(assignment.loads) - min(assignment.loads) <= max(sizes, default=0) or rank_count == 1


@pytest.mark.parametrize(("sizes", "rank_count"), [([1], 0), ([1, -1], 2)])
def test_what_cannot_be_assigned_is_refused(sizes: list[int], rank_count: int) -> None:
    with pytest.raises(ValueError, match="Expected"):
        assign_ranks(sizes, rank_count)
