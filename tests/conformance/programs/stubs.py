"""Conformance program: Python's generated stubs, sync. It needs nothing but gRPC and protobuf."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.message import Message

from monopath.v1 import service_pb2_grpc
from tests.conformance.programs import wire
from tests.conformance.programs.protocol import TIMEOUT_SECONDS, Answer, Job, serve


def run(address: str, vector: Job) -> Answer:
    """Run one vector on a connection of its own."""
    with grpc.insecure_channel(address) as channel:
        call_method = _call_method(channel, vector)
        if wire.is_stream(vector):
            return _run_stream(call_method, vector)
        (request,) = wire.requests(vector)
        try:
            response, call = call_method.with_call(request, timeout=TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            return _answer([], error)
        return _answer([response], call)


def _call_method(channel: grpc.Channel, vector: Job) -> Any:
    """The stub's method, or for requests that are given as bytes one that sends bytes."""
    if not wire.is_wire(vector):
        return getattr(service_pb2_grpc.PreprocessingServiceStub(channel), vector["method"])
    name = f"/{wire.SERVICE.full_name}/{vector['method']}"
    make: Any = channel.stream_stream if wire.is_stream(vector) else channel.unary_unary
    return make(name, response_deserializer=wire.response_type(vector).FromString)


def _run_stream(call_method: Any, vector: Job) -> Answer:
    first_response, over = threading.Event(), threading.Event()

    def write() -> Iterator[Message | bytes]:
        requests: list[Any] = list(wire.requests(vector))
        for index, request in enumerate(requests):
            yield request
            if index == 0:
                first_response.wait()
        if not vector["half_close"]:
            over.wait()

    call = call_method(write(), timeout=TIMEOUT_SECONDS)
    responses: list[Message] = []
    try:
        for response in call:
            responses.append(response)
            first_response.set()
    except grpc.RpcError:
        pass  # The call has the status.
    finally:
        # The thread that writes must end, however the stream did.
        first_response.set()
        over.set()
    return _answer(responses, call)


def _answer(responses: list[Message], call: Any) -> Answer:
    return wire.answer(responses, wire.status(call.code().name, call.details() or "", call.trailing_metadata() or ()))


if __name__ == "__main__":
    serve(run)
