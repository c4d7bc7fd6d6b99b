"""Case 7: a message of another path ends the stream, whatever the client's style, after what was accepted before it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from monopath.v1 import service_pb2, service_pb2_grpc
from tests.support.server import quick_settings
from tests.support.stream import Rig, encoded, make_config, make_item, photo, png, raw_pixels, running_rig

RUNS = 60
PIXELS = photo(148, 147)
"""64 KiB of raw RGB8."""
ITEM_COUNT = 64


def requests_with_a_foreign_one() -> list[Any]:
    """Items of 64 KiB; the second is an item of the CUDA path."""
    requests = [make_item(item_id, raw_pixels(PIXELS.tobytes(), 148, 147)) for item_id in range(1, ITEM_COUNT + 1)]
    foreign = make_item(2, encoded(png(photo(20, 20))), path="deferred_cuda")
    requests[1] = service_pb2.StreamDeferredCpuRequest.FromString(foreign.SerializeToString())
    return requests


def check(answered: list[int], code: grpc.StatusCode, metadata: Any) -> None:
    assert answered == [1]
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    status = status_pb2.Status.FromString(dict(metadata)["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.reason == "PAYLOAD_UNKNOWN"


async def written(rig: Rig) -> tuple[list[int], grpc.StatusCode, Any]:
    """Writes with `write`, reads afterwards."""
    stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
    call = stub.StreamDeferredCpu()
    await call.write(make_config())
    await call.read()
    for request in requests_with_a_foreign_one():
        await call.write(request)
    await call.done_writing()
    return await drained(call)


async def written_beside_a_reader(rig: Rig) -> tuple[list[int], grpc.StatusCode, Any]:
    """Writes with `write` while a task reads."""
    stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
    call = stub.StreamDeferredCpu()
    await call.write(make_config())
    await call.read()
    reader = asyncio.create_task(drained(call))
    for request in requests_with_a_foreign_one():
        await call.write(request)
    await call.done_writing()
    return await reader


async def generated(rig: Rig) -> tuple[list[int], grpc.StatusCode, Any]:
    """Gives gRPC an asynchronous generator."""

    async def requests() -> AsyncIterator[Any]:
        yield make_config()
        for request in requests_with_a_foreign_one():
            yield request

    stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
    call = stub.StreamDeferredCpu(requests())
    answered: list[int] = []
    try:
        async for response in call:
            if response.WhichOneof("payload") == "completion":
                answered.append(response.completion.id)
    except grpc.aio.AioRpcError:
        pass
    return answered, await call.code(), await call.trailing_metadata()


def synchronous(address: str) -> tuple[list[int], grpc.StatusCode, Any]:
    """Gives the synchronous API an iterator."""
    with grpc.insecure_channel(address) as channel:
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(channel)
        call = stub.StreamDeferredCpu(iter([make_config(), *requests_with_a_foreign_one()]))
        answered: list[int] = []
        try:
            for response in call:
                if response.WhichOneof("payload") == "completion":
                    answered.append(response.completion.id)
        except grpc.RpcError:
            pass
        return answered, call.code(), call.trailing_metadata()


async def drained(call: Any) -> tuple[list[int], grpc.StatusCode, Any]:
    answered: list[int] = []
    try:
        while (response := await call.read()) is not grpc.aio.EOF:
            if response.WhichOneof("payload") == "completion":
                answered.append(response.completion.id)
    except grpc.aio.AioRpcError:
        pass
    return answered, await call.code(), await call.trailing_metadata()


@pytest.mark.parametrize("style", [written, written_beside_a_reader, generated, synchronous], ids=lambda s: s.__name__)
@pytest.mark.asyncio
async def test_the_first_item_is_answered_and_the_true_status_arrives_every_time(style: Any) -> None:
    async with running_rig() as rig:
        for _ in range(RUNS):
            if style is synchronous:
                check(*await asyncio.to_thread(synchronous, rig.server.address))
            else:
                check(*await style(rig))


@pytest.mark.asyncio
async def test_a_client_that_never_half_closes_is_cut_off_at_the_bound() -> None:
    settings = quick_settings(refusal_drain_seconds=0.3)
    closing = threading.Event()

    def requests() -> Iterator[Any]:
        yield make_config()
        yield from requests_with_a_foreign_one()
        closing.wait(30)

    def run(address: str) -> grpc.StatusCode:
        with grpc.insecure_channel(address) as channel:
            stub: Any = service_pb2_grpc.PreprocessingServiceStub(channel)
            call = stub.StreamDeferredCpu(requests())
            with contextlib.suppress(grpc.RpcError):
                for _ in call:
                    pass
            code: grpc.StatusCode = call.code()
            return code

    async with running_rig(settings) as rig:
        code = await asyncio.to_thread(run, rig.server.address)
        closing.set()
    assert code is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.asyncio
async def test_a_client_that_never_stops_writing_is_cut_off_at_the_bound() -> None:
    settings = quick_settings(refusal_drain_seconds=60.0, refusal_drain_bytes=1_000_000)
    async with running_rig(settings) as rig:
        stream = await rig.open()
        foreign = requests_with_a_foreign_one()
        written_count = 0
        with pytest.raises((grpc.RpcError, asyncio.InvalidStateError)):
            await stream.send(foreign[1])
            while written_count < 10_000:
                await stream.send(foreign[0])
                written_count += 1
        # The bound, what flow control had let through already, and a little.
        assert written_count * PIXELS.nbytes < 20_000_000
