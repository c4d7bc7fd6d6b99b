"""Servers whose handles lie: the client says how, ends the call, and reads nothing that it should not."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from monopath import Client, ProtocolError, StreamBroken, StreamRefused
from monopath.v1 import event_pb2, location_pb2
from tests.clients import wire
from tests.clients.drivers import KINDS, SHARED, map_all
from tests.clients.fake_server import Servicer, scripted, serving
from tests.clients.segments import NONCE, ServerMemory, item_data

CPU = wire.CPU
DATA = item_data(1)


def _name() -> str:
    return f"monopath-{secrets.token_hex(16)}-{secrets.token_hex(16)}"


def _changed(memory: ServerMemory, **fields: Any) -> Any:
    handle = memory.put(DATA)
    for name, value in fields.items():
        setattr(handle, name, value)
    return handle


def _pipe(memory: ServerMemory) -> Any:
    name = _name()
    os.mkfifo(memory.directory / name)
    return _changed(memory, name=name)


def _link(memory: ServerMemory) -> Any:
    name, good = _name(), memory.put(DATA)
    (memory.directory / name).symlink_to(good.name)
    good.name = name
    return good


def _folder(memory: ServerMemory) -> Any:
    name = _name()
    (memory.directory / name).mkdir()
    return _changed(memory, name=name)


def _headless(memory: ServerMemory) -> Any:
    handle = memory.put(DATA)
    memory.segments[handle.name].memory[:16] = bytes(16)
    return handle


def _shrunk(memory: ServerMemory) -> Any:
    handle = memory.put(DATA)
    os.truncate(memory.directory / handle.name, 4096)
    return handle


HANDLES: dict[str, Callable[[ServerMemory], Any]] = {
    "no name": lambda memory: _changed(memory, name=""),
    "a segment that is not there": lambda memory: _changed(memory, name=_name()),
    "a name that is no segment's": lambda memory: _changed(memory, name="passwd"),
    "a name with a folder": lambda memory: _changed(memory, name=f"../{memory.directory.name}/{memory.put(DATA).name}"),
    "an owner's file": lambda memory: _changed(memory, name=memory.put(DATA).name[:41]),
    "a pipe": _pipe,
    "a link": _link,
    "a folder": _folder,
    "another use": lambda memory: _changed(memory, generation=77),
    "no use": lambda memory: _changed(memory, generation=0),
    "a segment without a header": _headless,
    "a segment that ends too early": _shrunk,
    "an offset behind the end": lambda memory: _changed(memory, offset_bytes=4097),
    "an offset that wraps around": lambda memory: _changed(memory, offset_bytes=2**64 - 1),
    "fewer bytes than planned": lambda memory: _changed(memory, length_bytes=47),
    "more bytes than planned": lambda memory: _changed(memory, length_bytes=49),
    "no bytes": lambda memory: _changed(memory, length_bytes=0),
    "a length that wraps around": lambda memory: _changed(memory, length_bytes=2**64 - 4096 + 48),
}


@KINDS
@pytest.mark.parametrize("name", HANDLES)
def test_a_handle_that_cannot_be_followed_is_a_protocol_error(kind: str, name: str, memory: ServerMemory) -> None:
    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield CPU.ready(shared_memory=memory.offer)
        next(requests)
        yield CPU.plan(1)
        yield CPU.handle(1, HANDLES[name](memory))
        yield CPU.completion(1)
        for _ in requests:
            pass

    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="Expected"):
        map_all(kind, address, [b"a"], transport="shared_memory", directory=memory.directory)


ORDERS: dict[str, Callable[[Any], list[Any]]] = {
    "a handle before the plan": lambda handle: [CPU.handle(1, handle)],
    "two handles": lambda handle: [CPU.plan(1), CPU.handle(1, handle), CPU.handle(1, handle)],
    "a chunk after the handle": lambda handle: [CPU.plan(1), CPU.handle(1, handle), CPU.chunk(1, DATA)],
    "a handle after a chunk": lambda handle: [CPU.plan(1), CPU.chunk(1, DATA[:4]), CPU.handle(1, handle)],
    "a handle of no item": lambda handle: [CPU.plan(1), CPU.handle(9, handle)],
    "a handle after the end": lambda handle: [CPU.error(1), CPU.handle(1, handle)],
    "a handle nowhere": lambda _handle: [
        CPU.plan(1),
        wire.CUDA.response.FromString(CPU.response(features={"id": 1}).SerializeToString()),
    ],
}


@KINDS
@pytest.mark.parametrize("name", ORDERS)
def test_a_handle_at_the_wrong_time_is_a_protocol_error(kind: str, name: str, memory: ServerMemory) -> None:
    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield CPU.ready(shared_memory=memory.offer)
        next(requests)
        for response in ORDERS[name](memory.put(DATA)):
            yield CPU.response.FromString(response.SerializeToString())
        for _ in requests:
            pass

    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="Expected"):
        map_all(kind, address, [b"a"], transport="shared_memory", directory=memory.directory)


@KINDS
def test_a_handle_on_an_inline_stream_is_a_protocol_error(kind: str, memory: ServerMemory) -> None:
    script = scripted(CPU.ready(), CPU.plan(1), CPU.handle(1, memory.put(DATA)), requests_first=1)
    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="inline, got a memory handle"):
        map_all(kind, address, [b"a"], directory=memory.directory)


@KINDS
def test_a_gpu_handle_on_a_stream_over_shared_memory_is_a_protocol_error(kind: str, memory: ServerMemory) -> None:
    handle = location_pb2.CudaIpcHandle(device_uuid="GPU-1", memory_handle=b"h", length_bytes=48)
    cuda = wire.CUDA
    script = scripted(cuda.ready(shared_memory=memory.offer), cuda.plan(1), cuda.handle(1, handle))
    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="got them in the memory of a GPU"):
        map_all(kind, address, [b"a"], method="deferred_cuda", transport="shared_memory", directory=memory.directory)


def _offer(memory: ServerMemory, **fields: Any) -> event_pb2.SharedMemoryOffer:
    offer = event_pb2.SharedMemoryOffer()
    offer.CopyFrom(memory.offer)
    for name, value in fields.items():
        setattr(offer.probe, name, value)
    return offer


REFUSED_OFFERS: dict[str, Callable[[ServerMemory], Any]] = {
    "of another host": lambda memory: _offer(memory, name=_name()),
    "with another secret": lambda memory: _offer(memory, nonce=NONCE[::-1]),
    "with a name that is no segment's": lambda memory: _offer(memory, name="passwd"),
    "longer than its segment": lambda memory: _offer(memory, nonce=bytes(5000)),
}


@KINDS
@pytest.mark.parametrize("name", REFUSED_OFFERS)
def test_a_server_whose_memory_is_not_seen_is_refused_with_what_to_do(
    kind: str, name: str, memory: ServerMemory
) -> None:
    script = scripted(CPU.ready(shared_memory=REFUSED_OFFERS[name](memory)))
    with serving(Servicer(script)) as address, pytest.raises(StreamRefused) as caught:
        map_all(kind, address, [b"a"], transport="shared_memory", directory=memory.directory)
    assert caught.value.reason == "TRANSPORT_UNAVAILABLE"
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert not caught.value.retryable
    for advice in ("one host", "one user", "--ipc", "--shm-size", 'transport="inline"'):
        assert advice in str(caught.value)


@KINDS
@pytest.mark.parametrize("offer", [None, "empty", "short"])
def test_a_server_that_offers_nothing_to_try_is_a_protocol_error(
    kind: str, offer: str | None, memory: ServerMemory
) -> None:
    offers = {None: None, "empty": event_pb2.SharedMemoryOffer(), "short": _offer(memory, nonce=NONCE[:15])}
    script = scripted(CPU.ready(shared_memory=offers[offer]))
    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="16 bytes or more to find"):
        map_all(kind, address, [b"a"], transport="shared_memory", directory=memory.directory)


def test_a_process_that_cannot_map_any_more_says_so(memory: ServerMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield CPU.ready(shared_memory=memory.offer)
        for request in requests:
            yield from memory.whole_item(request.item.id, DATA)

    from monopath import _mapped_segment

    with (
        serving(Servicer(script)) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        # No mapping is longer than what there is of addresses.
        real = _mapped_segment._LIBC.mmap
        monkeypatch.setattr(
            _mapped_segment._LIBC, "mmap", lambda start, _length, *rest: real(start, 1 << 60, *rest), raising=False
        )
        with pytest.raises(StreamBroken, match="Expected room to map another segment") as caught:
            list(stream.map([b"a"]))
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
