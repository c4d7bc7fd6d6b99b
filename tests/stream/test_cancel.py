"""Items and streams that are cancelled, and that nothing of them stays behind. `running_rig` checks the memory."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from monopath.v1 import event_pb2, service_pb2, service_pb2_grpc
from monopath_server.engine import host
from tests.stream.test_order import Gate
from tests.support.grammar import Party
from tests.support.server import quick_settings
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, running_rig

SMALL = encoded(png(photo(50, 40)))


def cancellation(item_id: int) -> Any:
    return service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=item_id))


@pytest.mark.parametrize("cancelled_id", [1, 2], ids=["while it runs", "while it waits"])
@pytest.mark.asyncio
async def test_a_cancelled_item_ends_once_and_its_neighbours_go_on(
    cancelled_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=1)) as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, SMALL) for item_id in (1, 2, 3)))
        await asyncio.to_thread(gate.reached.wait, 30)
        await stream.send(cancellation(cancelled_id))
        error = await stream.read_until("error")
        assert error.id == cancelled_id
        gate.open()
        assert await stream.finish() == "OK"
    assert stream.outcomes[cancelled_id].reason == "CANCELLED"
    assert sorted(stream.ended_ids) == [1, 2, 3]
    assert stream.summary is not None
    assert (stream.summary.cancelled_count, stream.summary.completed_count) == (1, 2)


@pytest.mark.asyncio
async def test_a_cancellation_of_an_item_that_has_ended_changes_nothing() -> None:
    async with running_rig() as rig:
        stream = await rig.open()
        await stream.send(make_item(1, SMALL))
        await stream.read_until("completion")
        await stream.send(cancellation(1))
        assert await stream.finish() == "OK"
    assert stream.ended_ids == [1]


@pytest.mark.asyncio
async def test_an_item_cancelled_right_behind_itself_ends_once() -> None:
    async with running_rig() as rig:
        stream = await rig.open()
        requests: list[Any] = []
        for item_id in range(1, 30):
            requests += [make_item(item_id, SMALL), cancellation(item_id)]
        await stream.send(*requests)
        assert await stream.finish() == "OK"
    assert sorted(stream.ended_ids) == list(range(1, 30))


@pytest.mark.parametrize("as_sent", [False, True])
@pytest.mark.asyncio
async def test_a_cancelled_stream_leaves_nothing_behind(as_sent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({2})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=2)) as rig:
        tasks_before = len(asyncio.all_tasks())
        stream = await rig.open(make_config(as_sent=as_sent))
        await stream.send(*(make_item(item_id, SMALL) for item_id in range(1, 20)))
        await asyncio.to_thread(gate.reached.wait, 30)
        stream.call.cancel()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await stream.call.read()
        # A stream of its own is the proof that the server lives; its end, that the loop has turned.
        await rig.run([make_item(1, SMALL)])
        async with asyncio.timeout(10):
            while rig.server.engines.buffers.held_bytes or len(asyncio.all_tasks()) > tasks_before + 1:
                await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_a_deadline_ends_the_stream_and_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=1)) as rig:
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
        call = stub.StreamDeferredCpu(timeout=0.5)
        await call.write(make_config())
        await call.write(make_item(1, SMALL))
        await asyncio.to_thread(gate.reached.wait, 30)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await call.read() is not grpc.aio.EOF:
                pass
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        gate.open()
        await rig.run([make_item(2, SMALL)])


@pytest.mark.asyncio
async def test_a_peer_that_dies_costs_nobody_else_anything(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate({1})
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig(quick_settings(worker_count=2)) as rig:
        async with grpc.aio.insecure_channel(rig.server.address) as dying_channel:
            dying = RawStream(dying_channel, "deferred_cpu")
            await dying.send(make_config(), *(make_item(item_id, SMALL) for item_id in range(1, 20)))
            await asyncio.to_thread(gate.reached.wait, 30)
        gate.open()
        stream = await rig.run([make_item(item_id, SMALL) for item_id in (2, 3)])
        assert len(stream.ended_ids) == 2
    assert "unexpectedly" not in caplog.text


@pytest.mark.asyncio
async def test_a_wrong_message_after_a_cancelled_item_still_answers_the_accepted_ones() -> None:
    async with running_rig() as rig:
        stream = await rig.open()
        await stream.send(make_item(1, SMALL), cancellation(1), make_item(2, SMALL), make_item(2, SMALL))
        assert await stream.finish(check=Party.SERVER) == "INVALID_ARGUMENT"
    assert sorted(stream.ended_ids) == [1, 2]
