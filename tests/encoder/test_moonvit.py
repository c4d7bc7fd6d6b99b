"""The encoder: what it makes of an image is the same in every batch, and depends on all of the image."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from examples.encoder.moonvit import MoonVit, encode_batch
from monopath import DeferredCpu, ItemError, PreprocessingPath, Result
from tests.encoder.results import result_of

GRIDS = [(2, 2), (4, 6), (6, 4), (2, 14), (10, 10), (12, 4), (16, 18)]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in a worker."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def encoder() -> MoonVit:
    return MoonVit(seed=3)


def _images(*, misaligned_by: int = 0) -> list[Result[DeferredCpu]]:
    """Return the same images each time; their features begin `misaligned_by` floats into their memory."""
    found = []
    for seed, (height, width) in enumerate(GRIDS):
        rows = np.random.default_rng(seed).standard_normal((height * width, 3, 14, 14), np.float32)
        memory = np.empty(misaligned_by + rows.size, np.float32)[misaligned_by:]
        memory[:] = rows.reshape(-1)
        found.append(result_of(memory.reshape(rows.shape), height, width))
    return found


def _bytes(encoder: MoonVit, batch: Sequence[Result[DeferredCpu]]) -> list[bytes]:
    return [tokens.numpy().tobytes() for tokens in encode_batch(encoder, batch)]


def test_an_embedding_is_the_same_alone_and_in_every_batch(encoder: MoonVit) -> None:
    alone = [tokens for image in _images() for tokens in _bytes(encoder, [image])]
    assert len(set(alone)) == len(GRIDS)
    for seed in range(5):
        places = random.Random(seed).choices(range(len(GRIDS)), k=9)
        images = _images(misaligned_by=seed)
        assert _bytes(encoder, [images[place] for place in places]) == [alone[place] for place in places]


def test_weights_come_from_the_seed_alone() -> None:
    image = _images()[:1]
    first = _bytes(MoonVit(seed=1), image)
    torch.rand(7)
    assert _bytes(MoonVit(seed=1), image) == first
    assert _bytes(MoonVit(seed=2), image) != first


def test_making_weights_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    MoonVit(seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_two_by_two_patches_become_one_token(encoder: MoonVit) -> None:
    shapes = [tokens.shape for tokens in encode_batch(encoder, _images())]
    assert shapes == [(height * width // 4, 96) for height, width in GRIDS]


@pytest.mark.parametrize("patch", [0, 17, 23])
def test_every_token_depends_on_every_patch(encoder: MoonVit, patch: int) -> None:
    image = _images()[1]
    (before,) = encode_batch(encoder, [image])
    image.array[patch] += 1
    (after,) = encode_batch(encoder, [image])
    assert bool((before != after).any(dim=1).all())


def test_a_patch_counts_by_its_place(encoder: MoonVit) -> None:
    rows = np.random.default_rng(0).standard_normal((24, 3, 14, 14), np.float32)
    batch = [result_of(rows, 4, 6), result_of(rows, 6, 4), result_of(rows[::-1].copy(), 4, 6)]
    assert len(set(_bytes(encoder, batch))) == 3


def test_rows_that_are_not_the_grids_are_refused(encoder: MoonVit) -> None:
    rows = np.zeros((24, 3, 14, 14), np.float32)
    with pytest.raises(ValueError, match="Expected rows of one frame of even sides, got 24 rows"):
        encode_batch(encoder, [result_of(rows, 4, 4)])
    with pytest.raises(ValueError, match="Expected rows of one frame of even sides"):
        encode_batch(encoder, [result_of(rows, 3, 8)])


def test_a_failed_item_cannot_be_encoded(encoder: MoonVit) -> None:
    failed: Result[DeferredCpu] = Result(
        item_id=1, label="", path=PreprocessingPath.DEFERRED_CPU, error=ItemError("IMAGE_DAMAGED", "Expected an image")
    )
    with pytest.raises(ItemError, match="IMAGE_DAMAGED"):
        encode_batch(encoder, [*_images(), failed])
