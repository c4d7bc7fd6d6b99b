"""Case 10: SIGTERM to a real server with busy, idle and refused streams, and a call that comes too late."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import dataclass

import grpc

from monopath.v1 import tensor_pb2
from tests.support.processes import Finished, ServerProcess, serving
from tests.support.stream import RawStream, make_config, make_item, preset, raw_pixels

__all__ = ["ACCEPTED_COUNT", "GRACE_SECONDS", "StopTrial", "stop_under_load"]

ACCEPTED_COUNT = 10
GRACE_SECONDS = 4
SHARES = (4, 3, 3)
IMAGE = raw_pixels(bytes(2000 * 1500 * 3), 2000, 1500)
"""Large enough that most of the accepted items are unfinished when the signal comes."""


@dataclass(frozen=True, slots=True)
class StopTrial:
    """What everybody saw of one stop."""

    completed_count: int
    """Of the accepted items."""
    busy_codes: tuple[str, ...]
    goaway_count: int
    idle_code: str
    refused_code: str
    refused_reason: str
    late_code: str
    process: Finished
    stopping_seconds: float

    @property
    def complaints(self) -> list[str]:
        """What is not as it must be. The time is the caller's to judge."""
        expected = {
            "completed_count": ACCEPTED_COUNT,
            "busy_codes": ("OK",) * len(SHARES),
            "goaway_count": len(SHARES),
            "idle_code": "UNAVAILABLE",
            "refused_code": "INVALID_ARGUMENT",
            "refused_reason": "CONFIG_INVALID",
            "late_code": "UNAVAILABLE",
            "process": Finished(0, "", ""),
        }
        return [
            f"Expected {value} as {name}, got {getattr(self, name)}"
            for name, value in expected.items()
            if getattr(self, name) != value
        ]


async def stop_under_load() -> StopTrial:
    """Start a server, fill it, stop it, and see what becomes of everybody."""
    with serving(
        "--address", "127.0.0.1:0", "--cuda", "off", "--cache-bytes", "0", "--grace", str(GRACE_SECONDS)
    ) as server:
        return await _stop(server)


async def _stop(server: ServerProcess) -> StopTrial:
    async with grpc.aio.insecure_channel(server.address) as channel:
        busy = [await _opened(channel) for _ in SHARES]
        idle = await _opened(channel)
        refused = RawStream(channel, "deferred_cpu")
        await refused.send(make_config(processor=preset("of nobody")))
        await refused.read_until("failure")  # the server now waits for the half-close
        for stream, count in zip(busy, SHARES, strict=True):
            await stream.send(*(make_item(item_id, IMAGE) for item_id in range(1, count + 1)))
        for stream, count in zip(busy, SHARES, strict=True):
            for item_id in range(1, count + 1):
                if item_id not in stream.outcomes:
                    await stream.read_until("plan", item_id=item_id)
        server.send_signal(signal.SIGTERM)
        signalled = time.monotonic()
        await busy[0].read_until("goaway")
        late_code = await _late_call(server.address)
        refused_code = await refused.finish()
        busy_codes = [await stream.finish() for stream in busy]
        idle_code = await idle.finish(half_close=False, grammar=False)
        process = await asyncio.to_thread(server.wait, GRACE_SECONDS + 20)
        stopping_seconds = time.monotonic() - signalled
    return StopTrial(
        completed_count=sum(outcome.completion is not None for stream in busy for outcome in stream.outcomes.values()),
        busy_codes=tuple(busy_codes),
        goaway_count=sum(_saw_goaway(stream) for stream in busy),
        idle_code=idle_code,
        refused_code=refused_code,
        refused_reason=refused.reason,
        late_code=late_code,
        process=process,
        stopping_seconds=stopping_seconds,
    )


async def _opened(channel: grpc.aio.Channel) -> RawStream:
    stream = RawStream(channel, "deferred_cpu")
    await stream.send(make_config(data_type=tensor_pb2.DATA_TYPE_UINT8))
    await stream.read_until("ready")
    return stream


async def _late_call(address: str) -> str:
    """A client that comes while the server stops."""
    async with grpc.aio.insecure_channel(address) as channel:
        late = RawStream(channel, "deferred_cpu")
        with contextlib.suppress(grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            await late.send(make_config())
        return await late.finish(half_close=False, grammar=False)


def _saw_goaway(stream: RawStream) -> bool:
    return any(event.WhichOneof("payload") == "goaway" for event in stream.events)
