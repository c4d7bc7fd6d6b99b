"""Runs a vector with gRPC for Python, over raw bytes, so that it can also send what no typed client would."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf import message_factory
from google.rpc import error_details_pb2, status_pb2

from tests.contract.vector_cases import Vector
from tests.contract.vector_matching import Outcome, parse_response
from tests.support.grammar import StreamTrace
from tests.support.options import SERVICE

__all__ = ["run_vector"]

_TIMEOUT_SECONDS = 60.0


async def run_vector(vector: Vector, address: str) -> tuple[Outcome, StreamTrace | None]:
    """Sends the vector's requests to a server; gives what came back and, of a stream, what the grammar checker needs.

    Like a good client it waits for the first answer after its first request, and reads while it writes.
    """
    method_name = f"/{SERVICE.full_name}/{vector.method}"
    async with grpc.aio.insecure_channel(address) as channel:
        if not vector.path:
            (request,) = vector.request_bytes()
            unary: Any = channel.unary_unary(method_name)
            call = unary(request, timeout=_TIMEOUT_SECONDS)
            try:
                responses = [await call]
            except grpc.aio.AioRpcError:
                responses = []
            return await _outcome(vector, call, responses), None
        trace = StreamTrace(vector.path)
        stream: Any = channel.stream_stream(method_name)(timeout=_TIMEOUT_SECONDS)
        responses = await _exchange(vector, stream, trace)
        outcome = await _outcome(vector, stream, responses)
        trace.ended(grpc.StatusCode[outcome.code].value[0])
        return outcome, trace


async def _exchange(vector: Vector, stream: Any, trace: StreamTrace) -> list[bytes]:
    request_type = message_factory.GetMessageClass(vector.descriptor.input_type)
    responses: list[bytes] = []
    first_response = asyncio.Event()

    async def read() -> None:
        try:
            while (response := await stream.read()) is not grpc.aio.EOF:
                responses.append(response)
                trace.received(parse_response(vector, response))
                first_response.set()
        except grpc.aio.AioRpcError:
            pass  # its status is looked at where the stream's end is
        finally:
            first_response.set()

    reader = asyncio.create_task(read())
    for index, request in enumerate(vector.request_bytes()):
        trace.sent(request_type.FromString(request))
        await stream.write(request)
        if index == 0:
            await first_response.wait()
    if vector.half_close:
        trace.half_closed()
        await stream.done_writing()
    await reader
    return responses


async def _outcome(vector: Vector, call: Any, responses: list[bytes]) -> Outcome:
    code: grpc.StatusCode = await call.code()
    status = status_pb2.Status()
    for key, value in await call.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status.ParseFromString(value)
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in status.details:
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(bad_request.DESCRIPTOR):
            detail.Unpack(bad_request)
    return Outcome(
        responses=tuple(parse_response(vector, response) for response in responses),
        code=code.name,
        message=await call.details() or "",
        reason=info.reason,
        domain=info.domain,
        violations=tuple((found.field, found.description) for found in bad_request.field_violations),
    )
