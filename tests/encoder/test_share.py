"""A rank's share: what the cache lacks is made and remembered, and every result is given back on every way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
import numpy as np
import pytest

from examples.encoder.cache import EmbeddingCache
from examples.encoder.faults import ConfigDiffers, Unavailable
from examples.encoder.lane import Lane
from examples.encoder.messages import BatchReport, Embedding, Failure, Request
from examples.encoder.moonvit import MoonVit, encode_batch
from examples.encoder.share import ShareEncoder
from examples.encoder.sources import EncodedImage
from monopath import (
    ConnectionFailed,
    DeferredCpu,
    ImageInput,
    ItemAttemptsExhausted,
    ItemError,
    PreprocessingPath,
    Result,
)
from tests.encoder.results import result_of

pytestmark = pytest.mark.asyncio
CONFIG = b"\x01" * 32
SOURCES = [EncodedImage(bytes([number])) for number in range(4)]


def _made(source: EncodedImage, config_sha256: bytes = CONFIG) -> Result[DeferredCpu]:
    rows = np.random.default_rng(source.data[0]).standard_normal((8, 3, 14, 14), np.float32)
    return result_of(rows, 2, 4, config_sha256=config_sha256)


def _failed(error: ItemError) -> Result[DeferredCpu]:
    return Result(item_id=1, label="", path=PreprocessingPath.DEFERRED_CPU, error=error)


class PlayedLane:
    """Gives the results that it was told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.told: dict[EncodedImage, Result[DeferredCpu]] = {}
        self.asked: list[EncodedImage] = []
        self.given: list[Result[DeferredCpu]] = []

    async def results(self, sources: Sequence[EncodedImage]) -> list[Result[DeferredCpu]]:
        """Give one for each, the usual one where nothing else was told."""
        self.asked = list(sources)
        self.given = [self.told.get(source) or _made(source) for source in sources]
        return self.given

    def all_released(self) -> bool:
        """Nobody can read the features of any result any more."""
        for result in self.given:
            if result.ok:
                with pytest.raises(RuntimeError, match="released"):
                    _ = result.array
        return bool(self.given)


@pytest.fixture
def lane() -> PlayedLane:
    return PlayedLane()


@pytest.fixture
def share(lane: PlayedLane) -> Iterator[ShareEncoder[DeferredCpu, ImageInput]]:
    with ThreadPoolExecutor(1) as executor:
        played = cast("Lane[DeferredCpu, ImageInput]", lane)
        yield ShareEncoder(played, MoonVit(), executor, EmbeddingCache(1 << 20), rank=5)


def _arrays(outcomes: Sequence[Any]) -> list[bytes]:
    return [outcome.array.tobytes() for outcome in outcomes]


async def test_what_is_cached_is_neither_sent_nor_encoded_again(lane: PlayedLane, share: Any) -> None:
    first = await share.encode(Request(SOURCES[1:3], CONFIG))
    assert first.batches == (BatchReport(5, 2, ("DEFERRED_CPU",)),)
    second = await share.encode(Request(SOURCES, CONFIG))
    assert lane.asked == [SOURCES[0], SOURCES[3]]
    assert second.batches == (BatchReport(5, 2, ("DEFERRED_CPU",)),)
    assert [outcome.cached for outcome in second.outcomes] == [False, True, True, False]
    expected = encode_batch(MoonVit(), [_made(source) for source in SOURCES])
    assert _arrays(second.outcomes) == [tokens.numpy().tobytes() for tokens in expected]
    assert lane.all_released()
    third = await share.encode(Request(SOURCES, CONFIG))
    assert (lane.asked, third.batches) == ([], ())


async def test_a_bad_image_is_told_and_not_remembered(lane: PlayedLane, share: Any) -> None:
    lane.told[SOURCES[1]] = _failed(ItemError("IMAGE_DAMAGED", "Expected an image"))
    for _ in range(2):
        first, bad, last = (await share.encode(Request(SOURCES[:3], CONFIG))).outcomes
        assert bad == Failure("IMAGE_DAMAGED", "Expected an image")
        assert isinstance(first, Embedding)
        assert isinstance(last, Embedding)
    assert lane.asked == [SOURCES[1]]


async def test_an_image_that_came_at_a_bad_time_fails_the_request_which_may_come_again(
    lane: PlayedLane, share: Any
) -> None:
    lane.told[SOURCES[1]] = _failed(ItemError("OVERLOADED", "Expected room"))
    with pytest.raises(Unavailable, match="Expected room"):
        await share.encode(Request(SOURCES, CONFIG))
    assert lane.all_released()


async def test_an_image_that_lost_every_stream_is_not_sent_again(lane: PlayedLane, share: Any) -> None:
    lost = ConnectionFailed(grpc.StatusCode.UNAVAILABLE, "gone")
    lane.told[SOURCES[1]] = _failed(ItemAttemptsExhausted(lost, attempt_count=3, item_id=1, label=""))
    outcomes = (await share.encode(Request(SOURCES, CONFIG))).outcomes
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == [None, "CLIENT_ATTEMPTS_EXHAUSTED", None, None]


async def test_features_of_another_config_than_the_plans_are_not_encoded(lane: PlayedLane, share: Any) -> None:
    lane.told[SOURCES[2]] = _made(SOURCES[2], b"\x02" * 32)
    with pytest.raises(ConfigDiffers, match="Expected features of config 0101"):
        await share.encode(Request(SOURCES, CONFIG))
    assert lane.all_released()
    await share.encode(Request(SOURCES[:2], CONFIG))
    assert lane.asked == SOURCES[:2]
