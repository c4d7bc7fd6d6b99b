"""What a worker is made of, each alone: messages, the cache, what a source says of itself, and asking again."""

from __future__ import annotations

from dataclasses import replace

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.encoder.cache import EmbeddingCache
from examples.encoder.faults import Refused, Unavailable, persist
from examples.encoder.frames import pack, unpack
from examples.encoder.lane import fault_of
from examples.encoder.messages import (
    FEATURES,
    IMAGES,
    BatchReport,
    Embedding,
    Failure,
    Reply,
    Request,
    pack_request,
    unpack_request,
)
from examples.encoder.sources import EncodedImage, FinishedFeatures
from monopath import (
    ConnectionFailed,
    DeadlineExceeded,
    GridThw,
    LocalFeatures,
    MonopathError,
    ProtocolError,
    RequestRefused,
    Size,
    StreamMoved,
    StreamRefused,
)
from tests.encoder.soak import picture

CONFIG = b"\x01" * 32


def _features(**changes: object) -> LocalFeatures:
    rows = np.random.default_rng(1).standard_normal((8, 3, 14, 14), np.float32)
    features = LocalFeatures(rows, original_size=Size(56, 28), grid_thw=GridThw(1, 2, 4), token_count=2)
    return replace(features, **changes)  # type: ignore[arg-type]  # each test's own


def test_images_come_through_a_message() -> None:
    request = Request([EncodedImage(b"one"), EncodedImage(b""), EncodedImage(b"three")], CONFIG)
    assert unpack_request(IMAGES, pack_request(request)) == request


def test_features_come_through_a_message() -> None:
    (source,) = unpack_request(FEATURES, pack_request(Request([FinishedFeatures(_features())], CONFIG))).sources
    sent, got = _features(), source.features
    assert np.array_equal(sent.array, got.array)
    assert (got.original_size, got.grid_thw, got.token_count) == (sent.original_size, sent.grid_thw, sent.token_count)


def test_replies_come_through_a_message() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    batches = (BatchReport(1, 1, ("LOCAL",)),)
    reply = Reply.unpacked(Reply((Embedding(array, 1, cached=True), Failure("INTERNAL", "no")), batches).packed())
    first, second = reply.outcomes
    assert isinstance(first, Embedding)
    assert (first.array.tolist(), first.rank, first.cached) == (array.tolist(), 1, True)
    assert (second, reply.batches) == (Failure("INTERNAL", "no"), batches)


@given(st.binary(max_size=60))
def test_bytes_of_a_stranger_are_refused(message: bytes) -> None:
    with pytest.raises(Refused, match="Expected"):
        unpack_request(IMAGES, message)


@pytest.mark.parametrize("change", [b"x", b""])
def test_a_message_of_another_length_is_refused(change: bytes) -> None:
    message = pack({}, [b"blob"])
    with pytest.raises(Refused, match="Expected blobs of 4 bytes"):
        unpack(message[:-1] + change * 2)


def test_images_are_no_features() -> None:
    with pytest.raises(Refused, match="Expected features with shape"):
        unpack_request(FEATURES, pack_request(Request([EncodedImage(b"image")])))


def test_the_cache_drops_what_was_not_used_for_longest() -> None:
    embedding = np.zeros((1, 4), np.float32)
    cache = EmbeddingCache(2 * embedding.nbytes)
    for name in (b"a", b"b"):
        cache.put(name, CONFIG, embedding)
    assert cache.get(b"a", CONFIG) is not None
    cache.put(b"c", CONFIG, embedding)
    assert [cache.get(name, CONFIG) is not None for name in (b"a", b"b", b"c")] == [True, False, True]


def test_the_cache_tells_configs_apart_and_keeps_its_bound() -> None:
    cache = EmbeddingCache(16)
    cache.put(b"a", CONFIG, np.zeros((1, 4), np.float32))
    assert cache.get(b"a", b"\x02" * 32) is None
    cache.put(b"large", CONFIG, np.zeros((2, 4), np.float32))
    assert cache.get(b"large", CONFIG) is None
    cache.put(b"a", CONFIG, np.ones((1, 4), np.float32))
    held = cache.get(b"a", CONFIG)
    assert held is not None
    assert held.sum() == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"grid_thw": GridThw(1, 4, 2)},
        {"original_size": Size(28, 56)},
        {"token_count": 1},
        {"array": np.zeros((8, 3, 14, 14), np.float32)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_features_are_known_by_all_that_was_said_of_them(changes: dict[str, object]) -> None:
    digest = FinishedFeatures(_features()).content_sha256()
    assert FinishedFeatures(_features()).content_sha256() == digest
    assert FinishedFeatures(_features(**changes)).content_sha256() != digest


def test_a_digest_that_the_caller_names_puts_nothing_into_the_cache() -> None:
    image = EncodedImage(picture(30, 20, 1))
    named = FinishedFeatures(_features(content_sha256=image.content_sha256()))
    assert named.content_sha256() == FinishedFeatures(_features()).content_sha256() != image.content_sha256()


def test_an_image_tells_its_size_or_that_it_has_none() -> None:
    assert EncodedImage(picture(30, 20, 1)).size() == Size(30, 20)
    assert EncodedImage(b"no image").size() is None


@pytest.mark.asyncio
async def test_who_is_unavailable_is_asked_again_and_who_refuses_is_not() -> None:
    asked: list[Exception | None] = [Unavailable("gone"), Unavailable("gone"), None]

    async def answer() -> str:
        fault = asked.pop(0)
        if fault is not None:
            raise fault
        return "here"

    assert await persist(answer) == "here"
    asked = [Refused("never"), None]
    with pytest.raises(Refused):
        await persist(answer)
    asked = [Unavailable("gone"), None]
    with pytest.raises(Unavailable):
        await persist(answer, patience_seconds=0)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ConnectionFailed(grpc.StatusCode.UNAVAILABLE, "gone"), Unavailable),
        (DeadlineExceeded(grpc.StatusCode.DEADLINE_EXCEEDED, "slow"), Unavailable),
        (RequestRefused(grpc.StatusCode.UNAVAILABLE, "draining", reason="DRAINING"), Unavailable),
        (StreamMoved("another config"), Unavailable),
        (StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, "wrong", reason="CONFIG_INVALID"), Refused),
        (ProtocolError("nonsense"), Refused),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_may_go_away_by_itself_is_asked_again(error: MonopathError, fault: type[Exception]) -> None:
    assert type(fault_of(error)) is fault
