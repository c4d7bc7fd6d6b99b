"""Conformance program: Python's generated stubs, asyncio. It needs nothing but gRPC and protobuf."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
from google.protobuf.message import Message

from monopath.v1 import service_pb2_grpc
from tests.conformance.programs import wire
from tests.conformance.programs.protocol import TIMEOUT_SECONDS, Answer, Job, serve


async def run(address: str, vector: Job) -> Answer:
    """Run one vector on a connection of its own."""
    async with grpc.aio.insecure_channel(address) as channel:
        call_method = _call_method(channel, vector)
        responses: list[Message] = []
        if wire.is_stream(vector):
            call = call_method(timeout=TIMEOUT_SECONDS)
            await _exchange(call, vector, responses)
        else:
            (request,) = wire.requests(vector)
            call = call_method(request, timeout=TIMEOUT_SECONDS)
            with contextlib.suppress(grpc.aio.AioRpcError):  # The call has the status.
                responses.append(await call)
        code: grpc.StatusCode = await call.code()
        told_status = wire.status(code.name, await call.details() or "", await call.trailing_metadata() or ())
        return wire.answer(responses, told_status)


def _call_method(channel: grpc.aio.Channel, vector: Job) -> Any:
    """The stub's method, or for requests that are given as bytes one that sends bytes."""
    if not wire.is_wire(vector):
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(channel)
        return getattr(stub, vector["method"])
    name = f"/{wire.SERVICE.full_name}/{vector['method']}"
    make: Any = channel.stream_stream if wire.is_stream(vector) else channel.unary_unary
    return make(name, response_deserializer=wire.response_type(vector).FromString)


async def _exchange(call: Any, vector: Job, responses: list[Message]) -> None:
    first_response = asyncio.Event()

    async def read() -> None:
        try:
            while (response := await call.read()) is not grpc.aio.EOF:
                responses.append(response)
                first_response.set()
        except grpc.aio.AioRpcError:
            pass  # The call has the status.
        finally:
            first_response.set()

    reader = asyncio.create_task(read())
    try:
        for index, request in enumerate(wire.requests(vector)):
            await call.write(request)
            if index == 0:
                await first_response.wait()
        if vector["half_close"]:
            await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass  # The stream ended first; the call has the status.
    await reader


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        serve(lambda address, vector: runner.run(run(address, vector)))
