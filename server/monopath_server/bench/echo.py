"""The client of the echo server: as many bytes each way as the images and their features have, and nothing else."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import numpy as np

from monopath_server.bench.drives import Crew, Passage, Source
from monopath_server.bench.echo_server import HEADER_BYTES, METHOD, OPTIONS
from monopath_server.bench.pipeline import read_bytes

__all__ = ["Echo"]


class Echo:
    """Calls to an echo server, each read by a thread of its own."""

    def __init__(
        self, address: str, feature_bytes: Mapping[bytes, int], stream_count: int, *, items_in_flight: int
    ) -> None:
        """`feature_bytes` says for each image how many bytes come back."""
        self._feature_bytes = feature_bytes
        self._items_in_flight = items_in_flight
        self._crew = Crew(stream_count, "echo")
        self._channel = grpc.insecure_channel(address, options=[*OPTIONS, ("grpc.use_local_subchannel_pool", 1)])
        # Without serialisers messages are bytes.
        self._call: Any = self._channel.stream_stream(METHOD)

    def run(self, images: Sequence[bytes]) -> Passage:
        return self._crew.run(images, self._work)

    def close(self) -> None:
        self._channel.close()
        self._crew.close()

    def _work(self, _index: int, source: Source) -> Passage:
        part = Passage(0)
        images = source.take()
        outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        awaited: deque[tuple[int, int]] = deque()  # numbers of images, and the bytes that are still to come

        def send_next() -> None:
            for number, image in images:
                size_bytes = self._feature_bytes[image]
                awaited.append((number, size_bytes))
                outbox.put(size_bytes.to_bytes(HEADER_BYTES, "big") + image)
                return
            outbox.put(None)

        for _ in range(self._items_in_flight):
            send_next()
        try:
            for chunk in self._call(iter(outbox.get, None)):
                read_bytes(np.frombuffer(chunk, np.uint8))
                part.feature_bytes += len(chunk)
                number, missing_bytes = awaited.popleft()
                if missing_bytes > len(chunk):
                    awaited.appendleft((number, missing_bytes - len(chunk)))
                else:
                    part.features_ms.append(source.age_ms(number))
                    send_next()
        finally:
            outbox.put(None)  # ends gRPC's writing thread where the call is lost
        return part
