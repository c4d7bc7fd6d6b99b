"""Images on their way to features: what their key is made of, when they are hashed, and what a cached one tells."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monopath_server.engine import images
from monopath_server.engine.batcher import Batcher
from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.cache import ContentKey, FeatureCache
from monopath_server.engine.device import DeviceEngine
from monopath_server.engine.executors import RestartingExecutor
from monopath_server.engine.host import HostEngine
from monopath_server.engine.images import ImagePlanner, PlannedImage, decode_planned
from monopath_server.engine.items import (
    CacheOutcome,
    EncodedSource,
    Features,
    ImageItem,
    PixelsSource,
    Route,
)
from monopath_server.engine.resources import Resources
from monopath_server.engine.rows import HostRows
from monopath_server.engine.work import ImageWork
from monopath_server.engine.workers import CancelToken, JobCancelled, Workers
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pixels import PixelFormat
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType, OrientationPolicy, ResampleKernel
from tests.support.stream import photo, png

CONFIG = PRESETS["kimi-k2.5"]
FILE = png(photo(40, 30))
OTHER_FILE = png(photo(40, 30, seed=1))
PIXELS = photo(40, 30).tobytes()


@pytest.fixture
def resources() -> Iterator[Resources]:
    workers = Workers(worker_count=1)
    yield Resources(
        workers=workers, buffers=BufferPool(idle_bytes=0), limits=ImageLimits(), max_feature_bytes=64 * 1024 * 1024
    )
    workers.close()


def item(
    source: EncodedSource | PixelsSource, item_id: int = 1, label: str = "", expected_sha256: bytes = b""
) -> ImageItem:
    return ImageItem(item_id, label, source, expected_sha256)


async def key_of(
    resources: Resources,
    asked: ImageItem,
    config: KimiConfig = CONFIG,
    element_type: ElementType = ElementType.UINT8,
) -> ContentKey:
    planner = ImagePlanner(config, element_type, resources)
    found, _ = await planner.key(await planner.plan(lambda: asked, None), CancelToken())
    return found


def raw(data: bytes, width_px: int, height_px: int, pixel_format: PixelFormat = PixelFormat.RGB8) -> ImageItem:
    return item(PixelsSource(data, width_px, height_px, pixel_format))


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(item_id=st.integers(1, 2**31 - 1), label=st.text(max_size=20), is_expected=st.booleans())
def test_id_label_and_expected_digest_are_no_part_of_a_key(
    resources: Resources, item_id: int, label: str, is_expected: bool
) -> None:
    async def keys() -> list[ContentKey]:
        expected = hashlib.sha256(FILE).digest() if is_expected else b""
        named = item(EncodedSource(FILE), item_id, label, expected)
        return [await key_of(resources, named), await key_of(resources, item(EncodedSource(bytes(bytearray(FILE)))))]

    first, second = asyncio.run(keys())
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.asyncio
async def test_one_byte_of_a_file_makes_another_key_even_where_its_pixels_are_the_same(resources: Resources) -> None:
    longer = FILE + b"\0"
    assert await key_of(resources, item(EncodedSource(FILE))) != await key_of(resources, item(EncodedSource(longer)))


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=st.integers(0, len(PIXELS) - 1), change=st.integers(1, 255))
def test_one_channel_of_one_pixel_makes_another_key(resources: Resources, offset: int, change: int) -> None:
    changed = bytearray(PIXELS)
    changed[offset] = (changed[offset] + change) % 256

    async def keys() -> list[ContentKey]:
        return [await key_of(resources, raw(data, 40, 30)) for data in (PIXELS, bytes(changed))]

    first, second = asyncio.run(keys())
    assert first != second


@pytest.mark.asyncio
async def test_the_same_bytes_as_other_pixels_have_another_key(resources: Resources) -> None:
    length = len(PIXELS)
    asked = [
        raw(PIXELS, 40, 30),
        raw(PIXELS, 30, 40),
        raw(PIXELS, 20, 60),
        raw(PIXELS, 1200, 1),
        raw(PIXELS, 60, 60, PixelFormat.GRAY8),
        raw(PIXELS, 30, 30, PixelFormat.RGBA8),
        raw(PIXELS, 30, 60, PixelFormat.GRAY_ALPHA8),
        raw(PIXELS, 60, 30, PixelFormat.GRAY_ALPHA8),
    ]
    assert all(len(entry.source.data) == length for entry in asked)
    keys = [await key_of(resources, entry) for entry in asked]
    assert len(set(keys)) == len(asked)
    assert {found.content_sha256 for found in keys} == {hashlib.sha256(PIXELS).digest()}


@pytest.mark.asyncio
async def test_a_file_and_its_own_bytes_as_pixels_have_two_keys(resources: Resources) -> None:
    as_file = await key_of(resources, item(EncodedSource(FILE)))
    as_pixels = await key_of(resources, raw(FILE, len(FILE), 1, PixelFormat.GRAY8))
    assert as_file.content_sha256 == as_pixels.content_sha256
    assert as_file != as_pixels


@pytest.mark.asyncio
async def test_whatever_can_change_a_byte_makes_another_key(resources: Resources) -> None:
    configs = [
        CONFIG,
        PRESETS["kimi-k3"],
        replace(CONFIG, in_patch_limit=4),
        replace(CONFIG, image_mean=(0.5, 0.5, 0.25)),
        replace(CONFIG, resample_kernel=ResampleKernel.PILLOW_11),
        replace(CONFIG, orientation=OrientationPolicy.APPLY),
    ]
    variants = list(itertools.product(configs, ElementType))
    keys = [await key_of(resources, item(EncodedSource(FILE)), *variant) for variant in variants]
    assert len(set(keys)) == len(variants)


@pytest.mark.asyncio
async def test_the_paths_agree_in_their_keys(resources: Resources) -> None:
    executor = RestartingExecutor(lambda: ThreadPoolExecutor(1))
    batcher = Batcher(lambda _: (), executor, max_items=1, max_patches=1, wait_us=0)
    host = HostEngine(CONFIG, ElementType.FLOAT32, resources)
    device = DeviceEngine(CONFIG, ElementType.FLOAT32, resources, device="GPU-1", batcher=batcher)
    asked = item(EncodedSource(FILE))
    found = [(await engine.key(await engine.plan(lambda: asked, None), CancelToken()))[0] for engine in (host, device)]
    assert found[0] == found[1]
    executor.close()


def recorded_hashes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is hashed from now on, in the order of it."""
    hashed: list[bytes] = []

    class Recording:
        @staticmethod
        def sha256(data: bytes) -> Any:
            hashed.append(data)
            return hashlib.sha256(data)

    monkeypatch.setattr(images, "hashlib", Recording)
    return hashed


@pytest.mark.parametrize("is_expected", [False, True], ids=["not told", "told by the client"])
@pytest.mark.asyncio
async def test_an_image_is_hashed_once(
    resources: Resources, is_expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = recorded_hashes(monkeypatch)
    planner = ImagePlanner(CONFIG, ElementType.UINT8, resources)
    expected = hashlib.sha256(FILE).digest()
    planned = await planner.plan(
        lambda: item(EncodedSource(FILE), expected_sha256=expected if is_expected else b""), None
    )
    assert hashed == [FILE] * is_expected
    found, keyed = await planner.key(planned, CancelToken())
    again, _ = await planner.key(keyed, CancelToken())
    decoded = decode_planned(keyed, CONFIG, CancelToken(), resources.buffers, resources.limits)
    decoded.release()
    assert hashed == [FILE]
    assert found == again
    assert found.content_sha256 == decoded.content_sha256 == expected


@pytest.mark.asyncio
async def test_plans_do_not_wait_for_the_digests_of_large_images(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    class Held:
        @staticmethod
        def sha256(data: bytes) -> Any:
            assert may_end.wait(30)
            return hashlib.sha256(data)

    monkeypatch.setattr(images, "HASHED_WITH_PLANS_BYTES", len(PIXELS) - 1)
    monkeypatch.setattr(images, "hashlib", Held)
    planner = ImagePlanner(CONFIG, ElementType.UINT8, resources)
    planned = await planner.plan(lambda: raw(PIXELS, 40, 30), None)
    tokens = [CancelToken() for _ in range(5)]
    large = [asyncio.create_task(planner.key(planned, token)) for token in tokens]
    await asyncio.sleep(0)
    await planner.plan(lambda: item(EncodedSource(FILE)), None)
    assert not any(task.done() for task in large)
    large[-1].cancel()
    await asyncio.sleep(0)
    may_end.set()
    results = await asyncio.gather(*large, return_exceptions=True)
    assert isinstance(results.pop(), asyncio.CancelledError)
    with pytest.raises(JobCancelled):
        tokens[-1].check()
    assert len({result[0] for result in results if not isinstance(result, BaseException)}) == 1


async def features_of(
    engine: HostEngine, cache: FeatureCache | None, asked: ImageItem, place: BufferPool
) -> tuple[Features, bytes]:
    """Features whose memory is released already, and their bytes."""
    work = ImageWork(engine, asked, cache)
    await work.plan()
    features = await work.features(CancelToken(), place, lambda: None)
    rows: Any = features.holding.rows
    data = bytes(rows.array)
    features.holding.release()
    return features, data


@pytest.mark.parametrize("most_by_loop_bytes", [len(FILE), len(FILE) - 1], ids=["by the loop", "by a worker"])
@pytest.mark.parametrize("is_expected", [False, True], ids=["not told", "told by the client"])
@pytest.mark.asyncio
async def test_an_image_that_the_cache_does_not_have_is_hashed_once_too(
    resources: Resources, most_by_loop_bytes: int, is_expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "HASHED_BY_LOOP_BYTES", most_by_loop_bytes)
    hashed = recorded_hashes(monkeypatch)
    expected = hashlib.sha256(FILE).digest()
    asked = item(EncodedSource(FILE), expected_sha256=expected if is_expected else b"")
    engine = HostEngine(CONFIG, ElementType.UINT8, resources)
    cache = FeatureCache(64 * 1024 * 1024)
    for count, outcome in enumerate((CacheOutcome.MISS, CacheOutcome.HIT), start=1):
        features, _ = await features_of(engine, cache, asked, BufferPool(idle_bytes=0))
        assert (features.cache, features.provenance.content_sha256) == (outcome, expected)
        assert hashed == [FILE] * count
    await cache.close()


@pytest.mark.asyncio
async def test_a_repeated_image_has_the_same_bytes_and_provenance_and_timings_of_its_own(resources: Resources) -> None:
    engine = HostEngine(CONFIG, ElementType.FLOAT32, resources)
    cache = FeatureCache(64 * 1024 * 1024)
    pool = BufferPool(idle_bytes=0)
    asked = item(EncodedSource(FILE))
    bypassed, expected = await features_of(engine, None, asked, pool)
    made, made_data = await features_of(engine, cache, asked, pool)
    kept, kept_data = await features_of(engine, cache, replace(asked, id=2, label="again"), pool)
    other, other_data = await features_of(engine, cache, item(EncodedSource(OTHER_FILE)), pool)
    outcomes = [features.cache for features in (bypassed, made, kept, other)]
    assert outcomes == [CacheOutcome.BYPASSED, CacheOutcome.MISS, CacheOutcome.HIT, CacheOutcome.MISS]
    assert expected == made_data == kept_data != other_data
    assert bypassed.provenance == made.provenance == kept.provenance
    assert kept.provenance.route is Route.HOST
    assert kept.provenance.content_sha256 == hashlib.sha256(FILE).digest()
    assert made.timings.decoding_ns > 0
    assert made.timings.transforming_ns > 0
    assert kept.timings.planning_ns > 0
    assert (kept.timings.decoding_ns, kept.timings.transforming_ns) == (0, 0)
    assert pool.held_bytes == cache.stored_bytes > 0
    await cache.close()
    assert pool.held_bytes == 0


@pytest.mark.asyncio
async def test_who_joins_tells_its_wait_and_no_work_of_its_own(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded_ids: list[int] = []
    may_end = threading.Event()

    def held(planned: PlannedImage, *arguments: Any) -> Any:
        decoded_ids.append(planned.item.id)
        assert may_end.wait(30)
        return decode_planned(planned, *arguments)

    monkeypatch.setattr("monopath_server.engine.host.decode_planned", held)
    engine = HostEngine(CONFIG, ElementType.UINT8, resources)
    cache = FeatureCache(64 * 1024 * 1024)
    pool = BufferPool(idle_bytes=0)
    tasks = [
        asyncio.create_task(features_of(engine, cache, item(EncodedSource(FILE), item_id), pool))
        for item_id in range(1, 11)
    ]
    async with asyncio.timeout(30):
        while cache.joined_count < 9:
            await asyncio.sleep(0.001)
    may_end.set()
    found = await asyncio.gather(*tasks)
    assert len({data for _, data in found}) == 1
    joined = [features for features, _ in found if features.cache is CacheOutcome.JOINED]
    assert len(joined) == 9
    assert len(decoded_ids) == 1
    for features in joined:
        assert features.timings.queued_ns > 0
        assert (features.timings.decoding_ns, features.timings.transforming_ns) == (0, 0)
    await cache.close()
    assert pool.held_bytes == 0


@pytest.mark.asyncio
async def test_a_wrong_expected_digest_is_found_although_the_image_is_kept(resources: Resources) -> None:
    engine = HostEngine(CONFIG, ElementType.UINT8, resources)
    cache = FeatureCache(64 * 1024 * 1024)
    pool = BufferPool(idle_bytes=0)
    await features_of(engine, cache, item(EncodedSource(FILE)), pool)
    with pytest.raises(ItemFault) as caught:
        await features_of(engine, cache, item(EncodedSource(FILE), expected_sha256=bytes(32)), pool)
    assert caught.value.reason is ItemReason.CONTENT_DIGEST_MISMATCH
    assert (cache.hit_count, cache.miss_count) == (0, 1)
    await cache.close()


@pytest.mark.asyncio
async def test_features_are_made_where_the_first_one_wants_them(resources: Resources) -> None:
    class Place:
        def __init__(self) -> None:
            self.pool = BufferPool(idle_bytes=0)
            self.taken: list[HostRows] = []

        def take(self, size_bytes: int) -> HostRows:
            self.taken.append(self.pool.take(size_bytes))
            return self.taken[-1]

    engine = HostEngine(CONFIG, ElementType.UINT8, resources)
    cache = FeatureCache(64 * 1024 * 1024)
    first, second = Place(), Place()
    for place in (first, second):
        work = ImageWork(engine, item(EncodedSource(FILE)), cache)
        await work.plan()
        features = await work.features(CancelToken(), place, lambda: None)
        assert features.holding.rows is first.taken[0]
        features.holding.release()
    assert (len(first.taken), len(second.taken)) == (1, 0)
    await cache.close()
    assert first.pool.held_bytes == 0


@pytest.mark.asyncio
async def test_only_the_item_that_features_are_made_for_is_charged(resources: Resources) -> None:
    engine = HostEngine(CONFIG, ElementType.UINT8, resources)
    cache = FeatureCache(64 * 1024 * 1024)
    charged: list[str] = []

    async def features(name: str) -> Features:
        work = ImageWork(engine, item(EncodedSource(FILE)), cache)
        await work.plan()
        return await work.features(CancelToken(), resources.buffers, lambda: charged.append(name))

    together = await asyncio.gather(features("first"), features("joined"))
    later = await features("later")
    assert len(charged) == 1
    for found in (*together, later):
        found.holding.release()
    await cache.close()
