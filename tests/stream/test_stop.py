"""Stopping without loss, readiness, and what a new call sees."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from monopath.v1 import event_pb2
from monopath_server.app import AddressError, Server
from monopath_server.engine import host
from monopath_server.serving.health import LIVENESS_NAME, READINESS_NAMES, SERVICE_NAME
from tests.stream.test_order import Gate
from tests.support.server import quick_settings
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, running_rig

SMALL = encoded(png(photo(50, 40)))


async def health(channel: grpc.aio.Channel, name: str) -> str:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    response = await stub.Check(health_pb2.HealthCheckRequest(service=name))
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


@pytest.mark.asyncio
async def test_a_stop_answers_what_was_accepted_and_asks_live_streams_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(set(range(1, 11)))
    monkeypatch.setattr(host, "decode_planned", gate)
    async with running_rig() as rig:
        busy = [await rig.open() for _ in range(3)]
        for index, stream in enumerate(busy):
            await stream.send(*(make_item(item_id, SMALL) for item_id in range(1, 4 + (index == 0))))
            await stream.read_until("plan", item_id=3 + (index == 0))
        stopping = asyncio.create_task(rig.server.stop())
        for stream in busy:
            goaway = await stream.read_until("goaway")
            assert goaway.reason == event_pb2.GOAWAY_REASON_DRAINING
        gate.open()
        for stream in busy:
            assert await stream.finish() == "OK"
        await stopping
    assert sum(len(stream.ended_ids) for stream in busy) == 10
    assert all(outcome.completion is not None for stream in busy for outcome in stream.outcomes.values())


@pytest.mark.asyncio
async def test_an_idle_stream_that_stays_ends_unavailable_after_the_grace() -> None:
    async with running_rig(quick_settings(grace_seconds=0.2)) as rig:
        idle = await rig.open()
        await rig.server.stop()
        while await idle.read() is not None:
            pass
        assert await idle.call.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.asyncio
async def test_a_new_call_during_a_stop_is_refused_as_unavailable() -> None:
    async with running_rig(quick_settings(grace_seconds=2.0)) as rig:
        live = await rig.open()
        stopping = asyncio.create_task(rig.server.stop())
        await live.read_until("goaway")
        late = RawStream(rig.channel, "deferred_cpu")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await late.call.write(make_config())
            await late.call.read()
            raise AssertionError("Expected a refusal, got an answer")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert await live.finish() == "OK"
        await stopping


@pytest.mark.asyncio
async def test_readiness_goes_off_during_the_lame_duck_while_liveness_stays_and_new_streams_are_served() -> None:
    async with running_rig(quick_settings(lame_duck_seconds=1.0)) as rig:
        assert await health(rig.channel, SERVICE_NAME) == "SERVING"
        stopping = asyncio.create_task(rig.server.stop())
        async with asyncio.timeout(10):
            while await health(rig.channel, SERVICE_NAME) != "NOT_SERVING":
                await asyncio.sleep(0.01)
        for name in READINESS_NAMES:
            assert await health(rig.channel, name) == "NOT_SERVING"
        assert await health(rig.channel, LIVENESS_NAME) == "SERVING"
        await rig.run([make_item(1, SMALL)])
        await stopping


@pytest.mark.asyncio
async def test_the_services_can_be_found_by_reflection() -> None:
    async with running_rig() as rig:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(rig.channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        names = {
            service.name for response in [await call.read()] for service in response.list_services_response.service
        }
        call.cancel()
    assert {SERVICE_NAME, "grpc.health.v1.Health"} <= names


@pytest.mark.asyncio
async def test_a_second_server_at_the_same_address_fails_loudly() -> None:
    async with Server(quick_settings()) as first:
        second = Server(quick_settings(address=first.address))
        with pytest.raises(AddressError, match=first.address):
            await second.start()
        await second.stop()


@pytest.mark.asyncio
async def test_a_unix_socket_serves_like_a_port(tmp_path: Any) -> None:
    async with running_rig(quick_settings(address=f"unix:{tmp_path}/monopath.sock")) as rig:
        stream = await rig.run([make_item(1, SMALL)])
    assert stream.outcomes[1].completion is not None
