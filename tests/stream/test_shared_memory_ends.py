"""Streams over shared memory that end in whatever way: no lease and no memory stays behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from monopath.v1 import event_pb2, service_pb2, tensor_pb2
from monopath_server.delivery.uploads import SegmentBytes
from monopath_server.engine import host
from monopath_server.engine.images import decode_planned
from tests.stream.shared_rig import SharedRig, finished, opened_with_deadline, shared_rig
from tests.stream.test_local import announce, header, whole
from tests.stream.test_shared_memory import local_bytes
from tests.support.footprint import settle, until
from tests.support.segments import located_features
from tests.support.stream import RawStream, encoded, make_item, photo, png

SMALL = photo(50, 40)


# ---- how a stream may end while three of its items are leased, one is being made, and two wait


async def by_cancelling_items(_rig: SharedRig, stream: RawStream) -> str:
    await stream.send(
        *(
            service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=item_id))
            for item_id in (4, 5, 6)
        )
    )
    await stream.half_close()
    return "OK"


async def by_cancelling_the_stream(_rig: SharedRig, stream: RawStream) -> str:
    stream.call.cancel()
    return "CANCELLED"


async def by_closing_the_connection(rig: SharedRig, _stream: RawStream) -> str:
    await rig.channel.close()
    return "CANCELLED"


async def by_a_deadline(rig: SharedRig, _stream: RawStream) -> str:
    await until(lambda: not rig.server._servicer._sessions, "the deadline")
    return "DEADLINE_EXCEEDED"


async def by_breaking_a_rule(_rig: SharedRig, stream: RawStream) -> str:
    await stream.send(make_item(1, encoded(png(SMALL))))
    await stream.half_close()
    return "INVALID_ARGUMENT"


ENDS: tuple[Callable[[SharedRig, RawStream], Awaitable[str]], ...] = (
    by_cancelling_items,
    by_cancelling_the_stream,
    by_closing_the_connection,
    by_a_deadline,
    by_breaking_a_rule,
)


@pytest.mark.parametrize("end", ENDS, ids=lambda step: step.__name__)
@pytest.mark.asyncio
async def test_no_lease_and_no_memory_stays_behind(
    end: Callable[[SharedRig, RawStream], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, reached = threading.Event(), threading.Event()

    def decode(planned: Any, *arguments: Any) -> Any:
        if planned.item.id == 4:
            reached.set()
            assert may_go_on.wait(30)
        return decode_planned(planned, *arguments)

    monkeypatch.setattr(host, "decode_planned", decode)
    async with shared_rig(worker_count=1) as rig:
        is_timed = end is by_a_deadline
        stream = await opened_with_deadline(rig, 2.0) if is_timed else await rig.open_shared()
        for item_id in (1, 2, 3):
            await stream.send(make_item(item_id, encoded(png(photo(50, 40, item_id)))))
            await stream.read_until("completion", item_id)
        await stream.send(*(make_item(item_id, encoded(png(SMALL))) for item_id in (4, 5, 6)))
        assert await asyncio.to_thread(reached.wait, 30)
        assert rig.lease_count == 3
        expected = await end(rig, stream)
        may_go_on.set()
        graceful = expected in ("OK", "INVALID_ARGUMENT")
        code = await code_of(stream) if not graceful else await stream.finish(half_close=False, grammar=False)
        assert code == expected
        assert (await settle(rig.server)).is_idle
        assert rig.pool.held_bytes == 0
        for item_id in (1, 2, 3):
            mapped = stream.outcomes[item_id].mapped
            assert mapped is not None
            assert (mapped.data, mapped.generation) == (bytes(stream.outcomes[item_id].data), mapped.handle.generation)


async def code_of(stream: RawStream) -> str:
    """The status that the client sees."""
    code: grpc.StatusCode = await stream.call.code()
    return code.name


@pytest.mark.asyncio
async def test_a_cancelled_item_whose_bytes_are_still_being_read_writes_into_no_other_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = SegmentBytes.read_into
    may_go_on, reached, done = threading.Event(), threading.Event(), threading.Event()

    def read_into(found: SegmentBytes, memory: memoryview) -> None:
        reached.set()
        assert may_go_on.wait(30)
        real(found, memory)
        done.set()

    monkeypatch.setattr(SegmentBytes, "read_into", read_into)
    async with shared_rig(worker_count=2) as rig:
        data = await local_bytes(rig)
        uint8 = {"data_type": tensor_pb2.DATA_TYPE_UINT8, "size_bytes": len(data)}
        victim = await rig.open_shared("local", data_type=tensor_pb2.DATA_TYPE_UINT8)
        await victim.send(announce(header(1, **uint8)), located_features(1, rig.memory.put(bytes(len(data)))))
        assert await asyncio.to_thread(reached.wait, 30)
        await victim.send(cancellation(1))
        await victim.read_until("error", 1)
        # Meanwhile the next item's first bytes come into memory of the same size.
        requests = whole(2, data, chunk_bytes=len(data) // 2 + 1, **uint8)
        await victim.send(*requests[:2], announce(header(3, **uint8)), cancellation(3))
        await victim.read_until("error", 3)
        may_go_on.set()
        assert await asyncio.to_thread(done.wait, 30)
        await victim.send(*requests[2:])
        await finished(victim)
        assert (await settle(rig.server)).is_idle
    assert bytes(victim.outcomes[2].data) == data


def cancellation(item_id: int) -> service_pb2.StreamLocalRequest:
    """Of an item of finished features."""
    return service_pb2.StreamLocalRequest(cancellation=event_pb2.Cancellation(id=item_id))
