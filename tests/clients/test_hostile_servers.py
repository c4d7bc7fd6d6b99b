"""Servers that break the grammar: the client says how, ends the call, and never hangs or hands out wrong bytes."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from monopath import ProtocolError, StreamBroken
from monopath.v1 import event_pb2, path_pb2, tensor_pb2
from tests.clients import wire
from tests.clients.drivers import KINDS, map_all
from tests.clients.fake_server import Servicer, scripted, serving

CPU = wire.CPU
READY = CPU.ready()
DATA = bytes(48)


def _handle(item_id: int) -> Any:
    response = CPU.response()
    response.features.id = item_id
    response.features.shared_memory.name = "segment"
    return response


def _small_limits() -> Any:
    limits = event_pb2.StreamLimits()
    limits.CopyFrom(wire.LIMITS)
    limits.max_feature_bytes = 40
    return limits


BEFORE_READY = {
    "a plan before ready": [CPU.plan(1)],
    "ready without limits": [CPU.response(ready=event_pb2.Ready(path=CPU.path))],
    "ready of another path": [CPU.ready(path=path_pb2.PREPROCESSING_PATH_LOCAL)],
    "a normalize table of a wrong shape": [
        CPU.ready(
            normalize_table=tensor_pb2.Tensor(
                spec=tensor_pb2.TensorSpec(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=(3, 255))
            )
        )
    ],
    "a normalize table that lacks bytes": [
        CPU.ready(
            normalize_table=tensor_pb2.Tensor(
                spec=tensor_pb2.TensorSpec(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=(3, 256)), data=b"1234"
            )
        )
    ],
    "an end without ready": [CPU.summary()],
}

AFTER_READY = {
    "ready twice": [READY],
    "a plan of an item never sent": [CPU.plan(9)],
    "two plans": [CPU.plan(1), CPU.plan(1)],
    "a plan of another path": [CPU.plan(1, path=path_pb2.PREPROCESSING_PATH_LOCAL)],
    "a plan of another element type": [CPU.plan(1, data_type=tensor_pb2.DATA_TYPE_UINT8)],
    "a plan of an unknown element type": [CPU.plan(1, data_type=99)],
    "a plan without a tensor": [CPU.response(plan=event_pb2.ItemPlan(id=1, path=CPU.path))],
    "a plan of no rows": [CPU.plan(1, shape=(0, 3, 2, 2))],
    "a plan with a negative length": [CPU.plan(1, shape=(-1, 3, 2, -2), size_bytes=48)],
    "a plan whose size is not its shape's": [CPU.plan(1, size_bytes=52)],
    "a plan over the limit": [CPU.plan(1, shape=(1 << 23, 3, 2, 2), size_bytes=48 << 23)],
    "features before a plan": [CPU.chunk(1, DATA)],
    "a gap": [CPU.plan(1), CPU.chunk(1, DATA[:4], 4)],
    "an overlap": [CPU.plan(1), CPU.chunk(1, DATA[:8]), CPU.chunk(1, DATA[:8], 4)],
    "too many bytes": [CPU.plan(1), CPU.chunk(1, DATA + b"x")],
    "an empty chunk": [CPU.plan(1), CPU.chunk(1, b"")],
    "a memory handle": [CPU.plan(1), _handle(1)],
    "a completion without a plan": [CPU.completion(1)],
    "a completion without features": [CPU.plan(1), CPU.completion(1)],
    "a completion before the last byte": [CPU.plan(1), CPU.chunk(1, DATA[:47]), CPU.completion(1)],
    "features made by another path": [CPU.plan(1), CPU.chunk(1, DATA), CPU.completion(1, path=CPU.path - 1)],
    "features made with another config": [CPU.plan(1), CPU.chunk(1, DATA), CPU.completion(1, config_sha256=b"x" * 32)],
    "two ends": [*CPU.whole_item(1), CPU.error(1)],
    "features after the end": [CPU.error(1), CPU.chunk(1, DATA)],
    "a summary before the items' ends": [CPU.summary()],
    "a summary that miscounts": [*CPU.whole_item(1), *CPU.whole_item(2), CPU.summary(completed=3)],
    "a summary that does not add up": [*CPU.whole_item(1), *CPU.whole_item(2), CPU.summary(completed=1, accepted=2)],
    "something after the summary": [*CPU.whole_item(1), CPU.error(2), CPU.summary(1, 1), CPU.goaway()],
}


@KINDS
@pytest.mark.parametrize("name", BEFORE_READY)
def test_a_stream_that_opens_wrongly_is_a_protocol_error(kind: str, name: str) -> None:
    servicer = Servicer(scripted(*BEFORE_READY[name]))
    with serving(servicer) as address, pytest.raises(ProtocolError, match="Expected"):
        map_all(kind, address, [b"a", b"b"])


@KINDS
@pytest.mark.parametrize("name", AFTER_READY)
def test_a_stream_that_goes_on_wrongly_is_a_protocol_error(kind: str, name: str) -> None:
    def script(requests: Any, _context: Any) -> Any:
        next(requests)
        yield READY
        next(requests), next(requests)
        yield from AFTER_READY[name]
        for _ in requests:
            pass

    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="Expected"):
        map_all(kind, address, [b"a", b"b"])


@KINDS
def test_a_plan_above_the_streams_own_limit_is_refused_before_memory_is_taken(kind: str) -> None:
    with (
        serving(Servicer(scripted(CPU.ready(limits=_small_limits()), CPU.plan(1), requests_first=1))) as address,
        pytest.raises(ProtocolError, match="limit of 40 bytes"),
    ):
        map_all(kind, address, [b"a"])


@KINDS
def test_items_that_end_out_of_order_are_refused_where_order_was_asked_for(kind: str) -> None:
    def script(requests: Any, _context: Any) -> Any:
        next(requests)
        yield READY
        first, second = next(requests).item, next(requests).item
        yield from CPU.whole_item(second.id)
        yield from CPU.whole_item(first.id)
        for _ in requests:
            pass
        yield CPU.summary(completed=2)

    with serving(Servicer(script)) as address:
        with pytest.raises(ProtocolError, match="Expected item 1 to end first"):
            map_all(kind, address, [b"a", b"b"], order="as_sent")
        assert [result.id for result in map_all(kind, address, [b"a", b"b"])] == [2, 1]


@KINDS
@pytest.mark.parametrize("responses", [[], [READY], [READY, CPU.summary()]])
def test_a_server_that_ends_too_early_is_a_protocol_error(kind: str, responses: list[Any]) -> None:
    with serving(Servicer(scripted(*responses, half_close=False))) as address, pytest.raises(ProtocolError):
        map_all(kind, address, [b"a", b"b"])


@KINDS
def test_a_message_larger_than_the_contract_allows_ends_the_stream_and_not_the_client(kind: str) -> None:
    with (
        serving(Servicer(scripted(READY, CPU.chunk(1, bytes(3 << 20))))) as address,
        pytest.raises(StreamBroken) as caught,
    ):
        map_all(kind, address, [b"a"])
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


@KINDS
def test_the_call_is_ended_at_once_when_the_grammar_is_broken(kind: str) -> None:
    servicer = Servicer(scripted(READY, CPU.plan(7)))
    with serving(servicer) as address:
        with pytest.raises(ProtocolError):
            map_all(kind, address, [b"a"])
        servicer.ended.get(timeout=30)
