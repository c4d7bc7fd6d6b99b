"""Ways in which many images become features that are read: in this process, through a server, and a bare echo."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from monopath import Client, DataType, Item, PlanEvent
from monopath_server.bench.pipeline import Pipeline, read_bytes

__all__ = ["Crew", "CrewWork", "Drive", "InProcess", "Passage", "Served", "Source"]


@dataclass(slots=True)
class Passage:
    """All images once through a drive."""

    image_count: int
    seconds: float = 0.0
    feature_bytes: int = 0
    plan_ms: list[float] = field(default_factory=list)
    """From taking up each image until its plan was known; empty where there are no plans."""
    features_ms: list[float] = field(default_factory=list)
    """From taking up each image until its features were there."""

    @property
    def images_per_second(self) -> float:
        """Of all streams or threads together."""
        return self.image_count / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        """Features, in units of 10^6 bytes."""
        return self.feature_bytes / self.seconds / 1e6


class Drive(Protocol):
    """One way."""

    def run(self, images: Sequence[bytes]) -> Passage:
        """Make features of all images, and read every byte of them."""

    def close(self) -> None:
        """End what is open. Calling it again does nothing."""


class Source:
    """Images that several threads take from, and when each was taken."""

    def __init__(self, images: Sequence[bytes]) -> None:
        self._numbered: Iterator[tuple[int, bytes]] = iter(enumerate(images))
        self._lock = threading.Lock()
        self.taken_seconds = [0.0] * len(images)

    def stop(self) -> None:
        """Give no more images."""
        with self._lock:
            self._numbered = iter(())

    def take(self) -> Iterator[tuple[int, bytes]]:
        """Yield images that no other thread has."""
        while True:
            with self._lock:
                number, image = next(self._numbered, (-1, b""))
            if number < 0:
                return
            self.taken_seconds[number] = time.perf_counter()
            yield number, image

    def age_ms(self, number: int) -> float:
        """Since an image was taken."""
        return 1e3 * (time.perf_counter() - self.taken_seconds[number])


class Crew:
    """Threads that take images from one source, each in its own way."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)

    def run(self, images: Sequence[bytes], work: CrewWork) -> Passage:
        """Let each thread work until the source is empty. Times are taken around all of it."""
        source, passage = Source(images), Passage(len(images))
        started = time.perf_counter()
        parts = [self._pool.submit(work, index, source) for index in range(self.size)]
        try:
            for part in parts:
                done = part.result()
                passage.feature_bytes += done.feature_bytes
                passage.plan_ms += done.plan_ms
                passage.features_ms += done.features_ms
        finally:
            source.stop()  # for the other threads, where one failed or this one was interrupted
        passage.seconds = time.perf_counter() - started
        return passage

    def close(self) -> None:
        self._pool.shutdown()


class CrewWork(Protocol):
    def __call__(self, index: int, source: Source, /) -> Passage: ...


class InProcess:
    """The pipeline, called by as many threads as a server has workers."""

    def __init__(self, pipeline: Pipeline, worker_count: int) -> None:
        self._pipeline = pipeline
        self._crew = Crew(worker_count, "in-process")

    def run(self, images: Sequence[bytes]) -> Passage:
        return self._crew.run(images, self._work)

    def close(self) -> None:
        self._crew.close()

    def _work(self, _index: int, source: Source) -> Passage:
        part = Passage(0)
        for number, image in source.take():
            with self._pipeline.whole(image) as rows:
                read_bytes(rows.array)
                part.feature_bytes += rows.size_bytes
            part.features_ms.append(source.age_ms(number))
        return part


class Served:
    """Streams of one client to a server, open as long as the drive is, each read by a thread of its own."""

    def __init__(
        self,
        address: str,
        preset: str,
        data_type: DataType,
        transport: Literal["inline", "shared_memory"],
        stream_count: int,
        *,
        items_in_flight: int,
    ) -> None:
        """`items_in_flight` is how many images each stream carries at a time.

        Raises MonopathError where a stream cannot be opened.
        """
        self._crew = Crew(stream_count, "served")
        self._client = Client(address)
        try:
            self._streams: list[Any] = []
            for _ in range(stream_count):
                stream = self._client.deferred_cpu(
                    preset=preset,
                    data_type=data_type,
                    transport=transport,
                    bypass_cache=True,
                    max_unfinished_items=items_in_flight,
                )
                self._streams.append(stream.__enter__())
        except BaseException:
            self.close()
            raise

    def run(self, images: Sequence[bytes]) -> Passage:
        return self._crew.run(images, self._work)

    def fallback_count(self) -> int:
        """End the streams, and return how many items had no room in shared memory."""
        summaries = [stream.finish() for stream in self._streams]
        return sum(summary.fallback_count for summary in summaries if summary is not None)

    def close(self) -> None:
        # Ends the streams too: whoever still reads one gets an error, and so comes to an end.
        self._client.close()
        self._crew.close()

    def _work(self, index: int, source: Source) -> Passage:
        part = Passage(0)

        def on_plan(event: PlanEvent) -> None:
            part.plan_ms.append(source.age_ms(int(event.label)))

        items = (Item(image, label=str(number)) for number, image in source.take())
        for result in self._streams[index].map(items, on_plan=on_plan):
            with result:
                read_bytes(result.array)
                part.feature_bytes += result.array.nbytes
            part.features_ms.append(source.age_ms(int(result.label)))
        return part
