"""Every metric moves for its reason, and for no other one."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import monopath_server
from monopath.v1 import tensor_pb2
from monopath_server.engine import host
from monopath_server.observer import Observer, StreamFacts, StreamWatch
from monopath_server.security.settings import SecuritySettings
from monopath_server.serving.capabilities import CONTRACT_VERSION
from monopath_server.telemetry.settings import TelemetrySettings
from monopath_server.telemetry.telemetry import Telemetry
from tests.stream.shared_rig import shared_rig
from tests.stream.test_cuda_ipc import BLOCK, running_gpu_rig
from tests.stream.test_local import deferred_bytes, whole
from tests.stream.test_order import Gate
from tests.support.footprint import until
from tests.support.metrics import Snapshot, metered_settings, scrape
from tests.support.segments import located_file
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, running_rig

GOOD = png(photo(60, 44))
FEATURE_BYTES = 24 * 588 * 4
"""Of the good picture, as float32."""
METERED = metered_settings().telemetry
README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


@pytest.mark.asyncio
async def test_a_stream_with_good_and_bad_images_is_counted_by_path_outcome_and_stage() -> None:
    async with running_rig(metered_settings()) as rig:
        before = await scrape(rig.server)
        damaged = GOOD[: len(GOOD) // 2]
        images = [GOOD, damaged, b"no image", b"", GOOD]
        await rig.run([make_item(item_id, encoded(data)) for item_id, data in enumerate(images, 1)])
        after = await scrape(rig.server)
    assert after.change(before, "monopath_streams_total") == {"COMPLETED/DEFERRED_CPU": 1}
    assert after.change(before, "monopath_items_total") == {
        "COMPLETED/DEFERRED_CPU": 2,
        "IMAGE_DAMAGED/DEFERRED_CPU": 1,
        "IMAGE_UNSUPPORTED/DEFERRED_CPU": 1,
        "IMAGE_EMPTY/DEFERRED_CPU": 1,
    }
    stages = ["decoding", "delivering", "planning", "queued", "transforming", "whole"]
    assert after.change(before, "monopath_item_seconds_count") == {f"DEFERRED_CPU/{stage}": 2 for stage in stages}
    seconds = after.change(before, "monopath_item_seconds_sum")
    assert 0 < seconds["DEFERRED_CPU/decoding"] < seconds["DEFERRED_CPU/whole"]
    assert after.change(before, "monopath_moved_bytes_total") == {
        "received/inline": sum(map(len, images)),
        "sent/inline": 2 * FEATURE_BYTES,
    }
    for quiet in ("monopath_goaways_total", "monopath_fallbacks_total", "monopath_lease_timeouts_total"):
        assert after.change(before, quiet) == {}


@pytest.mark.asyncio
async def test_local_features_are_counted_in_both_directions() -> None:
    async with running_rig(metered_settings()) as rig:
        data = await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32)
        before = await scrape(rig.server)
        await rig.run(whole(1, data), make_config("local"), "local")
        after = await scrape(rig.server)
    assert after.change(before, "monopath_items_total") == {"COMPLETED/LOCAL": 1}
    assert after.change(before, "monopath_moved_bytes_total") == {
        "received/inline": FEATURE_BYTES,
        "sent/inline": FEATURE_BYTES,
    }
    assert "LOCAL/decoding" not in after.change(before, "monopath_item_seconds_count")


@pytest.mark.asyncio
async def test_what_is_in_flight_and_what_waits_is_seen_while_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1, 2, 3, 4})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(metered_settings(worker_count=1)) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, encoded(GOOD)) for item_id in range(1, 5)))
        for _ in range(4):
            await stream.read_until("plan")
        await until(lambda: rig.server.engines.waiting_count == 3, "three items behind the one that is being decoded")
        busy = await scrape(rig.server)
        gate.open()
        assert await stream.finish() == "OK"
        await until(lambda: rig.server._servicer.unfinished.items == 0, "the end of all items")
        idle = await scrape(rig.server)
    assert busy.value("monopath_streams_open", path="DEFERRED_CPU") == 1
    assert busy.value("monopath_streams_open", path="LOCAL") == 0
    assert (busy.value("monopath_items_in_flight"), busy.value("monopath_items_waiting")) == (4, 3)
    assert busy.value("monopath_in_flight_bytes") == 4 * (len(GOOD) + FEATURE_BYTES)
    assert busy.value("monopath_in_flight_pixels") == 4 * 60 * 44
    for name in ("items_in_flight", "items_waiting", "in_flight_bytes", "in_flight_pixels"):
        assert idle.value(f"monopath_{name}") == 0
    assert idle.value("monopath_streams_open", path="DEFERRED_CPU") == 0


@pytest.mark.asyncio
async def test_items_and_streams_that_nobody_waits_for_any_more_are_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1, 2})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(metered_settings()) as rig:
        before = await scrape(rig.server)
        stream = await rig.open()
        await stream.send(make_item(1, encoded(GOOD)), make_item(2, encoded(GOOD)))
        for _ in range(2):
            await stream.read_until("plan")
        stream.call.cancel()
        await until(lambda: not rig.server._servicer.open_streams, "the end of the stream")
        gate.open()
        after = await scrape(rig.server)
    assert after.change(before, "monopath_items_total") == {"ABANDONED/DEFERRED_CPU": 2}
    assert after.change(before, "monopath_streams_total") == {"ABANDONED/DEFERRED_CPU": 1}
    assert after.change(before, "monopath_item_seconds_count") == {}


@pytest.mark.asyncio
async def test_refused_and_broken_streams_are_counted_by_their_reason() -> None:
    async with running_rig(metered_settings(max_streams=1)) as rig:
        before = await scrape(rig.server)
        nothing = RawStream(rig.channel, "local")
        assert await nothing.finish(grammar=False) == "INVALID_ARGUMENT"
        wrong = await rig.open()
        await wrong.send(make_item(-1, encoded(GOOD)))
        second = RawStream(rig.channel, "deferred_cpu")
        assert await second.finish(half_close=False, grammar=False) == "RESOURCE_EXHAUSTED"
        assert await wrong.finish(grammar=False) == "INVALID_ARGUMENT"
        cuda = RawStream(rig.channel, "deferred_cuda")
        await until(lambda: not rig.server._servicer.open_streams, "room for another stream")
        await cuda.send(make_config("deferred_cuda"))
        assert await cuda.finish(grammar=False) == "FAILED_PRECONDITION"
        await until(lambda: not rig.server._servicer.open_streams, "the end of all streams")
        after = await scrape(rig.server)
    assert after.change(before, "monopath_streams_total") == {
        "CONFIG_MISSING/LOCAL": 1,
        "ITEM_ID_INVALID/DEFERRED_CPU": 1,
        "OVERLOADED/DEFERRED_CPU": 1,
        "DEVICE_UNAVAILABLE/DEFERRED_CUDA": 1,
    }


@pytest.mark.asyncio
async def test_calls_without_a_token_are_counted_and_open_no_stream(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("0123456789abcdef\n")
    async with running_rig(metered_settings(security=SecuritySettings(token_file=tokens))) as rig:
        before = await scrape(rig.server)
        stream = RawStream(rig.channel, "local")
        assert await stream.finish(half_close=False, grammar=False) == "UNAUTHENTICATED"
        after = await scrape(rig.server)
    assert after.change(before, "monopath_refused_calls_total") == {"": 1}
    assert after.change(before, "monopath_streams_total") == {}


@pytest.mark.asyncio
async def test_goaways_are_counted_by_their_reason() -> None:
    async with running_rig(metered_settings(max_stream_age_seconds=0.05)) as rig:
        before = await scrape(rig.server)
        stream = await rig.open()
        await stream.read_until("goaway")
        assert await stream.finish() == "OK"
        after = await scrape(rig.server)
    assert after.change(before, "monopath_goaways_total") == {"STREAM_AGE": 1}


@pytest.mark.asyncio
async def test_the_cache_is_counted_by_what_was_found() -> None:
    async with running_rig(metered_settings(cache_bytes=1 << 20)) as rig:
        before = await scrape(rig.server)
        for _ in range(3):
            await rig.run([make_item(1, encoded(GOOD))])
        after = await scrape(rig.server)
    assert after.change(before, "monopath_cache_lookups_total") == {"MISS": 1, "HIT": 2}
    assert after.value("monopath_cache_entries") == 1
    assert after.value("monopath_cache_bytes") >= FEATURE_BYTES
    assert after.value("monopath_buffer_bytes", state="held") >= FEATURE_BYTES
    counts = after.change(before, "monopath_item_seconds_count")
    assert (counts["DEFERRED_CPU/decoding"], counts["DEFERRED_CPU/whole"]) == (1, 3)


@pytest.mark.asyncio
async def test_leases_and_shared_memory_are_seen_and_a_lease_that_runs_out_is_counted() -> None:
    async with shared_rig(telemetry=METERED, lease_timeout_seconds=3600.0) as rig:
        stream = await rig.open_shared()
        await stream.send(make_item(1, encoded(GOOD)), make_item(2, encoded(GOOD)))
        for _ in range(2):
            await stream.read_until("completion")
        leased = await scrape(rig.server)
        await stream.release(1)
        await until(lambda: rig.lease_count == 1, "the release")
        released = await scrape(rig.server)
        assert await stream.finish() == "OK"
    assert (leased.value("monopath_leases_open"), leased.value("monopath_leased_bytes")) == (2, 2 * FEATURE_BYTES)
    assert released.value("monopath_leased_bytes") == FEATURE_BYTES
    assert leased.value("monopath_shared_memory_bytes", state="held") >= 2 * FEATURE_BYTES
    assert released.value("monopath_shared_memory_bytes", state="idle") >= FEATURE_BYTES
    async with shared_rig(telemetry=METERED, lease_timeout_seconds=0.02) as rig:
        stream = await rig.open_shared()
        await stream.send(make_item(1, encoded(GOOD)))
        await stream.read_until("completion", 1)
        await until(lambda: rig.lease_count == 0, "the end of the lease")
        over = await scrape(rig.server)
        assert await stream.finish() == "OK"
    assert (over.value("monopath_lease_timeouts_total"), over.value("monopath_leased_bytes")) == (1, 0)
    assert released.value("monopath_lease_timeouts_total") == 0


@pytest.mark.asyncio
async def test_bytes_are_counted_for_the_transport_that_they_took_and_a_fallback_for_the_one_asked_for() -> None:
    async with shared_rig(telemetry=METERED, max_shared_memory_bytes=1 << 20) as rig:
        before = await scrape(rig.server)
        stream = await rig.open_shared()
        image = png(photo(600, 440))
        await stream.send(make_item(1, encoded(GOOD)), make_item(2, encoded(image)))
        assert await stream.finish() == "OK"
        after = await scrape(rig.server)
    assert stream.outcomes[2].plan is not None
    assert after.change(before, "monopath_fallbacks_total") == {"shared_memory": 1}
    assert after.change(before, "monopath_moved_bytes_total") == {
        "received/inline": len(GOOD) + len(image),
        "sent/shared_memory": FEATURE_BYTES,
        "sent/inline": stream.outcomes[2].plan.plan.features.size_bytes,
    }


@pytest.mark.asyncio
async def test_an_image_in_the_clients_memory_is_received_through_it() -> None:
    async with shared_rig(telemetry=METERED) as rig:
        before = await scrape(rig.server)
        stream = await rig.open_shared()
        await stream.send(make_item(1, located_file(rig.memory.put(GOOD))))
        assert await stream.finish() == "OK"
        after = await scrape(rig.server)
    assert after.change(before, "monopath_moved_bytes_total") == {
        "received/shared_memory": len(GOOD),
        "sent/shared_memory": FEATURE_BYTES,
    }


@pytest.mark.asyncio
async def test_batches_and_the_memory_of_a_device_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_gpu_rig(monkeypatch, telemetry=METERED) as gpu:
        server = gpu.rig.server
        before = await scrape(server)
        assert before.change(Snapshot({}), "monopath_device_memory_bytes") == {}
        stream = await gpu.rig.open(gpu.config(), "deferred_cuda")
        await stream.send(make_item(1, encoded(GOOD), path="deferred_cuda"))
        await stream.read_until("completion", 1)
        held = await scrape(server)
        assert await stream.finish() == "OK"
        after = await scrape(server)
    assert after.change(before, "monopath_batch_items_count") == {"": 1}
    assert after.change(before, "monopath_batch_items_sum") == {"": 1}
    assert held.value("monopath_device_memory_bytes", device="interpreter", state="held") == 2 * BLOCK
    assert after.value("monopath_device_memory_bytes", device="interpreter", state="held") == BLOCK
    # As bfloat16, half of float32.
    assert after.value("monopath_moved_bytes_total", transport="cuda_ipc", direction="sent") == FEATURE_BYTES // 2


@pytest.mark.asyncio
async def test_the_builds_versions_readiness_and_draining_are_told() -> None:
    async with running_rig(metered_settings()) as rig:
        running = await scrape(rig.server)
        stream = await rig.open()
        stopping = asyncio.create_task(rig.server.stop())
        await stream.read_until("goaway")
        draining = await scrape(rig.server)
        assert await stream.finish() == "OK"
        await stopping
    assert (running.value("monopath_ready"), running.value("monopath_draining")) == (1, 0)
    assert (draining.value("monopath_ready"), draining.value("monopath_draining")) == (0, 1)
    assert draining.change(running, "monopath_goaways_total") == {"DRAINING": 1}
    [build] = [dict(labels) for name, labels in running.values if name == "monopath_build_info"]
    assert (build["version"], build["contract_version"]) == (monopath_server.__version__, CONTRACT_VERSION)
    assert running.value("process_open_fds") > 0


@pytest.mark.asyncio
async def test_the_readme_has_every_metric_with_its_type_and_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = README.partition("| metric | type | labels | counts |\n|---|---|---|---|\n")[2].partition("\n\n")[0]
    printed = {}
    for row in rows.splitlines():
        name, kind, labels, _ = (cell.strip() for cell in row.strip("|").split("|"))
        printed[name.strip("`")] = (kind, frozenset(re.findall(r"`(\w+)`", labels)))
    async with running_gpu_rig(monkeypatch, telemetry=METERED) as gpu:
        stream = await gpu.rig.open(gpu.config(), "deferred_cuda")
        assert await stream.finish() == "OK"
        values = (await scrape(gpu.rig.server)).values
    served: dict[str, tuple[str, frozenset[str]]] = {}
    for name, pairs in values:
        if not name.startswith("monopath_"):
            continue
        names = frozenset(label for label, _ in pairs)
        if name.endswith("_bucket"):
            served[name.removesuffix("_bucket")] = ("histogram", names - {"le"})
        elif name.removesuffix("_count").removesuffix("_sum") not in served:
            served[name] = ("counter" if name.endswith("_total") else "gauge", names)
    assert printed == served


def test_metrics_are_off_unless_asked_for_and_then_no_facts_of_items_are_gathered() -> None:
    observer = Telemetry(TelemetrySettings()).observer
    assert type(observer) is Observer
    assert StreamWatch(observer, StreamFacts(1, "method", "LOCAL", "peer")).item(1, "") is None
