"""However many streams come, and whatever they say, there is never another series."""

from __future__ import annotations

import asyncio
import random
import string
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from monopath.v1 import event_pb2
from tests.support.footprint import until
from tests.support.metrics import metered_settings, scrape
from tests.support.stream import encoded, make_config, make_item, preset, running_rig

STREAM_COUNT = 10_000
AT_ONCE = 50
SERVICE = "monopath.v1.PreprocessingService"


class Hostile:
    """Makes streams that differ in all that a client can choose. The same ones in every run."""

    def __init__(self) -> None:
        self._random = random.Random(9)
        self.begun: Counter[str] = Counter()
        """Streams of methods that exist, by the path's name."""

    def text(self, longest: int = 40) -> str:
        return "".join(self._random.choices(string.printable + "äß€\u2028", k=self._random.randint(1, longest)))

    def word(self) -> str:
        return "".join(self._random.choices(string.ascii_letters, k=12))

    def traceparent(self) -> str:
        numbers = self._random.getrandbits(128), self._random.getrandbits(64), self._random.getrandbits(8)
        return self._random.choice(["00-{:032x}-{:016x}-{:02x}".format(*numbers), self.text()])

    def item(self) -> bytes:
        request: Any = make_item(self._random.randint(-3, 2**31 - 1), encoded(self._random.randbytes(9)), self.text())
        request.item.traceparent = self.traceparent()
        return bytes(request.SerializeToString())

    def requests(self) -> Iterator[bytes]:
        """Of one stream."""
        match self._random.randrange(5):
            case 0:
                yield self._random.randbytes(20)
            case 1:
                yield make_config(processor=preset(self.text())).SerializeToString()
            case 2:
                yield self.item()
            case 3:
                yield make_config().SerializeToString()
                for _ in range(self._random.randint(1, 3)):
                    yield self.item()
            case _:
                yield event_pb2.Release(id=1).SerializeToString()

    async def run(self, channel: grpc.aio.Channel) -> None:
        """Open a stream, send, and read to its end."""
        known = {"StreamLocal": "LOCAL", "StreamDeferredCpu": "DEFERRED_CPU", "StreamDeferredCuda": "DEFERRED_CUDA"}
        method = self._random.choice([*known, f"Stream{self.word()}"])
        if method in known:
            self.begun[known[method]] += 1
        metadata = ((f"x-{self.word().lower()}", self.word()), ("traceparent", self.word()))
        call: Any = channel.stream_stream(f"/{SERVICE}/{method}")(_sent(list(self.requests())), metadata=metadata)
        try:
            async for _ in call:
                pass
        except grpc.aio.AioRpcError:
            pass  # a refusal, most of the time


@pytest.mark.timeout(600)
@pytest.mark.asyncio
async def test_ten_thousand_hostile_streams_make_no_new_series() -> None:
    hostile = Hostile()
    async with running_rig(metered_settings()) as rig:
        before = await scrape(rig.server)
        left = iter(range(STREAM_COUNT))

        async def open_some() -> None:
            for _ in left:
                await hostile.run(rig.channel)

        await asyncio.gather(*(open_some() for _ in range(AT_ONCE)))
        await until(lambda: not rig.server._servicer.open_streams, "the end of all streams")
        after = await scrape(rig.server)
    assert after.values.keys() == before.values.keys()
    assert hostile.begun.total() > STREAM_COUNT // 2
    counted: Counter[str] = Counter()
    for labels, count in after.change(before, "monopath_streams_total").items():
        counted[labels.partition("/")[2]] += int(count)
    assert counted == hostile.begun
    assert sum(after.change(before, "monopath_items_total").values()) > STREAM_COUNT // 20


def _sent(requests: list[bytes]) -> Any:
    # Bytes are what a call without a serialiser takes; gRPC's types know only messages.
    return iter(requests)
