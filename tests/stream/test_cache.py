"""Images that come again, through a real server. `running_rig` checks that nothing of the cache outlives the server."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from typing import Any

import grpc
import pytest

from monopath.v1 import deferred_cpu_pb2, event_pb2, image_pb2, service_pb2, tensor_pb2
from monopath_server.engine import host
from monopath_server.engine.buffers import block_bytes
from monopath_server.engine.cache import FeatureCache
from monopath_server.engine.images import decode_planned
from monopath_server.settings import DeviceMode, Settings
from tests.stream.test_order import Gate
from tests.support.server import quick_settings
from tests.support.stream import (
    Outcome,
    PathName,
    RawStream,
    Rig,
    encoded,
    make_config,
    make_item,
    photo,
    png,
    preset,
    raw_pixels,
    running_rig,
)

MIB = 1024 * 1024
SMALL = encoded(png(photo(50, 40)))
LARGER = encoded(png(photo(400, 300)))


def cached_settings(cache_bytes: int = 64 * MIB, **changes: object) -> Settings:
    return quick_settings(cache_bytes=cache_bytes, **changes)


def cache_of(rig: Rig) -> FeatureCache:
    cache = rig.server.engines.cache
    assert cache is not None
    return cache


def told(outcome: Outcome) -> str:
    """What the completion says of the cache."""
    assert outcome.completion is not None
    name: str = event_pb2.CacheOutcome.Name(outcome.completion.cache)
    return name.removeprefix("CACHE_OUTCOME_")


async def joined(rig: Rig, count: int) -> None:
    """Wait until `count` items have joined others."""
    async with asyncio.timeout(30):
        while cache_of(rig).joined_count < count:
            await asyncio.sleep(0.001)


async def run_one(
    rig: Rig, image: image_pb2.ImageSource, config: Any = None, path: PathName = "deferred_cpu"
) -> Outcome:
    stream = await rig.run([make_item(1, image, path=path)], config, path)
    return stream.outcomes[1]


@pytest.mark.asyncio
async def test_an_image_that_comes_again_is_a_hit_with_the_same_bytes() -> None:
    async with running_rig(cached_settings()) as rig:
        stream = await rig.open()
        for item_id in (1, 2, 5):
            await stream.send(make_item(item_id, LARGER, label=f"label {item_id}"))
            await stream.read_until("completion")
        assert await stream.finish() == "OK"
        other = await run_one(rig, LARGER)
    assert [told(stream.outcomes[item_id]) for item_id in (1, 2, 5)] == ["MISS", "HIT", "HIT"]
    assert told(other) == "HIT"
    assert {outcome.sha256 for outcome in (*stream.outcomes.values(), other)} == {other.sha256}
    assert stream.outcomes[5].completion.label == "label 5"
    assert other.completion.provenance == stream.outcomes[1].completion.provenance
    timings = other.completion.timings
    assert timings.decoding.ToNanoseconds() == timings.transforming.ToNanoseconds() == 0
    assert timings.planning.ToNanoseconds() > 0


@pytest.mark.asyncio
async def test_cached_bytes_are_those_of_a_server_without_a_cache() -> None:
    pixels = photo(31, 43)
    images = [LARGER, SMALL, raw_pixels(pixels.tobytes(), 31, 43), raw_pixels(pixels.tobytes(), 43, 31)]
    for name in ("kimi-k2.5", "kimi-k3"):
        for data_type in (tensor_pb2.DATA_TYPE_BFLOAT16, tensor_pb2.DATA_TYPE_UINT8):
            config = make_config(processor=preset(name), data_type=data_type)
            digests: list[list[str]] = []
            for settings in (quick_settings(), cached_settings()):
                async with running_rig(settings) as rig:
                    for _ in range(2):
                        outcomes = [await run_one(rig, image, config) for image in images]
                        digests.append([outcome.sha256 for outcome in outcomes])
            assert [told(outcome) for outcome in outcomes] == ["HIT"] * len(images)
            assert digests == [digests[0]] * 4
            assert len(set(digests[0])) == len(images)


@pytest.mark.asyncio
async def test_other_configs_and_element_types_share_nothing() -> None:
    configs = [
        make_config(processor=preset(name), data_type=data_type)
        for name in ("kimi-k2.5", "kimi-k3")
        for data_type in (tensor_pb2.DATA_TYPE_FLOAT32, tensor_pb2.DATA_TYPE_FLOAT16, tensor_pb2.DATA_TYPE_UINT8)
    ]
    async with running_rig(cached_settings()) as rig:
        first = [told(await run_one(rig, SMALL, config)) for config in configs]
        second = [told(await run_one(rig, SMALL, config)) for config in configs]
    assert first == ["MISS"] * len(configs)
    assert second == ["HIT"] * len(configs)


@pytest.mark.asyncio
async def test_a_stream_that_bypasses_the_cache_neither_takes_nor_leaves_anything_there() -> None:
    async with running_rig(cached_settings()) as rig:
        bypassing = make_config(bypass_cache=True)
        outcomes = [await run_one(rig, SMALL, config) for config in (bypassing, None, bypassing)]
        assert (cache_of(rig).hit_count, cache_of(rig).miss_count) == (0, 1)
    assert [told(outcome) for outcome in outcomes] == ["BYPASSED", "MISS", "BYPASSED"]
    assert len({outcome.sha256 for outcome in outcomes}) == 1


@pytest.mark.asyncio
async def test_a_server_without_a_cache_says_so() -> None:
    async with running_rig(quick_settings(cache_bytes=0)) as rig:
        assert rig.server.engines.cache is None
        outcomes = [await run_one(rig, SMALL) for _ in range(2)]
    assert [told(outcome) for outcome in outcomes] == ["BYPASSED"] * 2


@pytest.mark.asyncio
async def test_a_hundred_identical_items_on_ten_streams_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded_ids: list[int] = []
    may_end = threading.Event()

    def held(planned: Any, *arguments: Any) -> Any:
        decoded_ids.append(planned.item.id)
        assert may_end.wait(30)
        return decode_planned(planned, *arguments)

    monkeypatch.setattr(host, "decode_planned", held)
    async with running_rig(cached_settings()) as rig:
        streams = [await rig.open() for _ in range(10)]
        for stream in streams:
            await stream.send(*(make_item(item_id, LARGER) for item_id in range(1, 11)))
        await joined(rig, 99)
        may_end.set()
        for stream in streams:
            assert await stream.finish() == "OK"
        cache = cache_of(rig)
        assert (cache.miss_count, cache.joined_count, cache.hit_count) == (1, 99, 0)
        assert cache.entry_count == 1
    assert len(decoded_ids) == 1
    outcomes = [outcome for stream in streams for outcome in stream.outcomes.values()]
    assert sorted(told(outcome) for outcome in outcomes) == ["JOINED"] * 99 + ["MISS"]
    assert len({outcome.sha256 for outcome in outcomes}) == 1


@pytest.mark.asyncio
async def test_a_damaged_image_fails_every_time_and_is_not_kept() -> None:
    whole = png(photo(60, 60))
    damaged = encoded(whole[: len(whole) // 2])
    async with running_rig(cached_settings()) as rig:
        outcomes = [await run_one(rig, damaged) for _ in range(2)]
        assert (cache_of(rig).miss_count, cache_of(rig).entry_count) == (2, 0)
        assert told(await run_one(rig, encoded(whole))) == "MISS"
    assert [outcome.reason for outcome in outcomes] == ["IMAGE_DAMAGED"] * 2


@pytest.mark.asyncio
async def test_a_damaged_image_that_many_wait_for_fails_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = png(photo(60, 60))
    damaged = encoded(whole[: len(whole) // 2])
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(cached_settings()) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, damaged) for item_id in (1, 2, 3)), make_item(4, SMALL))
        await joined(rig, 2)
        gate.open()
        assert await stream.finish() == "OK"
    assert [stream.outcomes[item_id].reason for item_id in (1, 2, 3, 4)] == ["IMAGE_DAMAGED"] * 3 + [""]


@pytest.mark.parametrize("leaves", ["cancels its item", "cancels its stream", "closes its channel"])
@pytest.mark.asyncio
async def test_a_client_that_leaves_does_not_fail_those_who_wait_for_the_same_image(
    leaves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(cached_settings(worker_count=1)) as rig:
        async with grpc.aio.insecure_channel(rig.server.address) as channel:
            leaving = RawStream(channel, "deferred_cpu")
            await leaving.send(make_config())
            await leaving.read_until("ready")
            await leaving.send(make_item(1, LARGER))
            await asyncio.to_thread(gate.reached.wait, 30)
            staying = await rig.open()
            await staying.send(make_item(11, LARGER), make_item(12, LARGER))
            await joined(rig, 2)
            if leaves == "cancels its item":
                await leaving.send(service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=1)))
                assert await leaving.finish() == "OK"
                assert leaving.outcomes[1].reason == "CANCELLED"
            elif leaves == "cancels its stream":
                leaving.call.cancel()
        async with asyncio.timeout(30):
            while len(rig.server._servicer._sessions) > 1:
                await asyncio.sleep(0.001)
        gate.open()
        assert await staying.finish() == "OK"
        assert cache_of(rig).miss_count == 1
        assert told(await run_one(rig, LARGER)) == "HIT"
    assert [told(staying.outcomes[item_id]) for item_id in (11, 12)] == ["JOINED"] * 2
    assert staying.outcomes[11].sha256 == staying.outcomes[12].sha256


@pytest.mark.asyncio
async def test_an_image_that_all_have_left_is_not_kept_and_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(cached_settings(worker_count=2)) as rig:
        stream = await rig.open()
        await stream.send(make_item(1, LARGER), make_item(2, LARGER))
        await joined(rig, 1)
        for item_id in (1, 2):
            await stream.send(service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=item_id)))
            await stream.read_until("error", item_id)
        await stream.send(make_item(3, LARGER))
        await stream.read_until("completion", 3)
        gate.open()
        assert await stream.finish() == "OK"
        assert cache_of(rig).miss_count == 2
    assert told(stream.outcomes[3]) == "MISS"


@pytest.mark.asyncio
async def test_a_wrong_expected_digest_is_found_although_the_image_is_kept() -> None:
    data = SMALL.encoded.data
    right, wrong = (
        service_pb2.StreamDeferredCpuRequest(
            item=deferred_cpu_pb2.DeferredCpuItem(id=item_id, image=SMALL, expected_sha256=digest)
        )
        for item_id, digest in ((1, hashlib.sha256(data).digest()), (2, bytes(32)))
    )
    async with running_rig(cached_settings()) as rig:
        stream = await rig.open()
        await stream.send(right)
        await stream.read_until("completion")
        await stream.send(wrong)
        assert await stream.finish() == "OK"
        assert (cache_of(rig).miss_count, cache_of(rig).hit_count) == (1, 0)
    assert told(stream.outcomes[1]) == "MISS"
    assert stream.outcomes[2].reason == "CONTENT_DIGEST_MISMATCH"
    assert stream.outcomes[2].plan is None


@pytest.mark.asyncio
async def test_the_least_recently_used_images_make_room() -> None:
    images = [encoded(png(photo(140, 140, seed=seed))) for seed in range(3)]
    limit_bytes = 2 * block_bytes(10 * 10 * 14 * 14 * 3 * 4)
    async with running_rig(cached_settings(limit_bytes)) as rig:
        found = [told(await run_one(rig, images[number])) for number in (0, 1, 0, 2, 0, 1)]
        assert cache_of(rig).stored_bytes == limit_bytes
    assert found == ["MISS", "MISS", "HIT", "MISS", "HIT", "MISS"]


@pytest.mark.parametrize(
    ("first", "second"), [("deferred_cpu", "deferred_cuda"), ("deferred_cuda", "deferred_cpu")], ids=["cpu", "cuda"]
)
@pytest.mark.asyncio
async def test_what_one_path_has_made_the_other_one_finds_with_the_route_of_its_maker(
    first: PathName, second: PathName
) -> None:
    async with running_rig(cached_settings(cuda=DeviceMode.INTERPRETER)) as rig:
        made = await run_one(rig, SMALL, make_config(first), first)
        found = await run_one(rig, SMALL, make_config(second), second)
        anew = await run_one(rig, SMALL, make_config(second, bypass_cache=True), second)
    assert (told(made), told(found), told(anew)) == ("MISS", "HIT", "BYPASSED")
    assert made.sha256 == found.sha256 == anew.sha256
    routes = {"deferred_cpu": event_pb2.ROUTE_HOST, "deferred_cuda": event_pb2.ROUTE_DEVICE}
    assert made.completion.provenance.route == found.completion.provenance.route == routes[first]
    assert anew.completion.provenance.route == routes[second]
