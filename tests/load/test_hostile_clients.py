"""Clients that are slow, silent, greedy or many: each is told why it ends, and costs no other stream anything."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2

from monopath.v1 import local_pb2, service_pb2, tensor_pb2
from monopath_server.engine import host
from monopath_server.engine.budget import Load
from tests.stream.test_order import Gate
from tests.support.footprint import settle, until
from tests.support.grammar import Party
from tests.support.server import quick_settings
from tests.support.stream import (
    RawStream,
    Rig,
    encoded,
    make_config,
    make_item,
    photo,
    png,
    raw_pixels,
    running_rig,
)

SMALL = encoded(png(photo(50, 40)))
LARGE = raw_pixels(bytes(700 * 700 * 3), 700, 700)
"""Its features are 6 MB, more than flow control lets through unread."""


def retry_delay(stream: RawStream) -> duration_pb2.Duration | None:
    """When the status says that the client may try again."""
    info = error_details_pb2.RetryInfo()
    for detail in stream.status.details if stream.status else ():
        if detail.Unpack(info):
            delay: duration_pb2.Duration = info.retry_delay
            return delay
    return None


async def expect_control_item(rig: Rig) -> None:
    """The server still serves everybody else."""
    stream = await rig.run([make_item(1, SMALL)])
    assert stream.outcomes[1].completion is not None


@pytest.mark.asyncio
async def test_a_client_that_does_not_read_is_ended_and_holds_nothing() -> None:
    async with running_rig(quick_settings(reply_timeout_seconds=0.5)) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, LARGE) for item_id in range(1, 5)))
        await until(lambda: rig.server.engines.buffers.held_bytes > 20_000_000, "features that nobody reads")
        await expect_control_item(rig)
        assert (await settle(rig.server)).is_idle
        code = await stream.finish(half_close=False, grammar=False)
        assert (code, stream.reason) == ("DEADLINE_EXCEEDED", "REPLIES_UNREAD")
        await expect_control_item(rig)


@pytest.mark.asyncio
async def test_a_client_that_writes_and_never_reads_is_stopped_by_its_own_budget() -> None:
    settings = quick_settings(reply_timeout_seconds=0.5, max_unfinished_items=4, max_unfinished_bytes=32_000_000)
    async with running_rig(settings) as rig:
        stream = await rig.open()
        used: list[Load] = []

        async def write_for_ever() -> None:
            for item_id in range(1, 10_000):
                await stream.send(make_item(item_id, LARGE))
                used.append(rig.server._servicer._budget.used)

        writing = asyncio.create_task(write_for_ever())
        await until(lambda: rig.server._servicer._budget.used.items >= 4, "a full budget")
        await until(lambda: not rig.server._servicer._sessions, "the end of the stream")
        assert (await settle(rig.server)).is_idle
        await expect_control_item(rig)
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError, grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            await writing
    assert len(used) < 100
    assert max(load.items for load in used) <= 4
    # A stream is let in up to its budget and then one item more.
    assert max(load.bytes for load in used) < 32_000_000 + 4 * 8_000_000


@pytest.mark.asyncio
async def test_a_reader_that_is_slow_but_reads_gets_everything() -> None:
    async with running_rig(quick_settings(reply_timeout_seconds=5.0)) as rig:
        expected = (await rig.run([make_item(1, LARGE)])).outcomes[1].sha256
        stream = await rig.open()
        await stream.send(*(make_item(item_id, LARGE) for item_id in range(1, 4)))
        await until(lambda: rig.server.engines.buffers.held_bytes > 15_000_000, "features that nobody reads yet")
        for _ in range(3):
            await stream.read()
            await expect_control_item(rig)
        assert await stream.finish() == "OK"
        assert [stream.outcomes[item_id].sha256 for item_id in (1, 2, 3)] == [expected] * 3


@pytest.mark.parametrize("says", ["nothing", "a config", "an item without its bytes"])
@pytest.mark.asyncio
async def test_a_client_that_says_nothing_more_is_ended(says: str) -> None:
    settings = quick_settings(opening_timeout_seconds=0.3, idle_timeout_seconds=0.3)
    async with running_rig(settings) as rig:
        stream = RawStream(rig.channel, "local")
        if says != "nothing":
            await stream.send(make_config("local"))
            await stream.read_until("ready")
        if says == "an item without its bytes":
            await stream.send(service_pb2.StreamLocalRequest(item=_announcement()))
        code = await stream.finish(half_close=False, check=Party.SERVER)
        assert (code, stream.reason) == ("DEADLINE_EXCEEDED", "CLIENT_SILENT")
        if says == "an item without its bytes":
            assert stream.outcomes[1].reason == "FEATURES_INCOMPLETE"
        assert (await settle(rig.server)).is_idle
        await expect_control_item(rig)


@pytest.mark.asyncio
async def test_a_client_that_waits_for_the_server_is_not_called_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(idle_timeout_seconds=0.2, worker_count=1)) as rig:
        stream = await rig.open()
        await stream.send(make_item(1, SMALL))
        await asyncio.to_thread(gate.reached.wait, 30)
        silent = await rig.open()
        assert await silent.finish(half_close=False, check=Party.SERVER) == "DEADLINE_EXCEEDED"
        gate.open()
        assert await stream.finish() == "OK"
        assert stream.outcomes[1].completion is not None


@pytest.mark.asyncio
async def test_one_stream_too_many_is_refused_with_both_sides_of_the_limit_and_a_time_to_retry() -> None:
    async with running_rig(quick_settings(max_streams=3)) as rig:
        streams = [await rig.open() for _ in range(3)]
        refused = RawStream(rig.channel, "deferred_cpu")
        with contextlib.suppress(grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            await refused.send(make_config())
        assert await refused.finish(half_close=False, grammar=False) == "RESOURCE_EXHAUSTED"
        assert refused.reason == "OVERLOADED"
        assert refused.status is not None
        assert "at most 3 streams" in refused.status.message
        delay = retry_delay(refused)
        assert delay is not None
        assert delay.ToTimedelta().total_seconds() > 0
        assert await streams.pop().finish() == "OK"
        await expect_control_item(rig)
        for stream in streams:
            assert await stream.finish() == "OK"


@pytest.mark.parametrize(
    ("limit", "most", "needed"),
    [
        ("max_process_items", 4, "5"),
        ("max_process_bytes", 1_500_000, "1534776"),
        ("max_process_pixels", 400_000, "402000"),
    ],
)
@pytest.mark.asyncio
async def test_a_full_server_answers_items_with_both_numbers_and_a_time_to_retry(
    limit: str, most: int, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each item has 2,000 or 100,000 pixels; of what they hold together, the one that is too much is known exactly."""
    gate = Gate(set(range(1, 10)))
    monkeypatch.setattr(host, "decode_planned", gate)
    large, small = raw_pixels(bytes(400 * 250 * 3), 400, 250), raw_pixels(bytes(50 * 40 * 3), 50, 40)
    async with running_rig(quick_settings(**{limit: most})) as rig:
        first, second = await rig.open(), await rig.open()
        for item_id in range(1, 5):
            if limit == "max_process_bytes" and item_id > 1:
                break
            await first.send(make_item(item_id, large))
            await first.read_until("plan", item_id=item_id)
        await second.send(make_item(9, small))
        error = await second.read_until("error")
        assert second.outcomes[9].reason == "OVERLOADED"
        assert f"at most {most}" in error.message
        if limit != "max_process_bytes":
            assert f"got {needed} with this one" in error.message
        assert error.HasField("retry_after")
        gate.open()
        assert await second.finish() == "OK"
        assert await first.finish() == "OK"
        assert all(outcome.completion is not None for outcome in first.outcomes.values())
        assert (await settle(rig.server)).is_idle
        await rig.run([make_item(9, small)])


@pytest.mark.asyncio
async def test_one_item_larger_than_the_whole_budget_is_served_alone() -> None:
    settings = quick_settings(max_process_bytes=1000, max_process_pixels=10, max_unfinished_bytes=10)
    async with running_rig(settings) as rig:
        stream = await rig.open()
        for item_id in (1, 2, 3):
            await stream.send(make_item(item_id, SMALL))
            await stream.read_until("completion", item_id=item_id)
        assert await stream.finish() == "OK"
        assert (await settle(rig.server)).is_idle


def _announcement() -> local_pb2.LocalItem:
    item = local_pb2.LocalItem(id=1, token_count=1)
    item.original_size.width_px = item.original_size.height_px = 28
    item.grid_thw.t, item.grid_thw.h, item.grid_thw.w = 1, 2, 2
    item.features.data_type = tensor_pb2.DATA_TYPE_FLOAT32
    item.features.shape.extend((4, 3, 14, 14))
    item.features.size_bytes = 4 * 588 * 4
    return item
