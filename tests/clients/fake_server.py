"""A gRPC server in this process whose every word is scripted, well-behaved or not."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, TypeAlias

import grpc

from monopath.v1 import service_pb2_grpc
from tests.clients import wire

Script: TypeAlias = Callable[[Iterator[Any], grpc.ServicerContext], Iterator[Any]]
"""Takes the requests of one stream, yields its responses."""


class Servicer(service_pb2_grpc.PreprocessingServiceServicer):
    """Plays one script for every stream of every path, or scripts in turn, and answers unary calls from functions."""

    def __init__(self, *scripts: Script, unary: Callable[[Any, grpc.ServicerContext], Any] | None = None) -> None:
        self._scripts = list(scripts)
        self._unary = unary
        self.ended: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """True for each stream that ended by its script, False for each that was cut off before."""
        self.metadata: list[tuple[str, str | bytes]] = []

    def _play(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        self.metadata = [(key, value) for key, value in context.invocation_metadata()]
        to_the_end = False
        try:
            yield from script(requests, context)
            to_the_end = True
        finally:
            self.ended.put(to_the_end)

    def StreamDeferredCpu(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        return self._play(request_iterator, context)

    def StreamDeferredCuda(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        return self._play(request_iterator, context)

    def StreamLocal(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        return self._play(request_iterator, context)

    def Plan(self, request: Any, context: Any) -> Any:  # noqa: N802
        assert self._unary is not None
        return self._unary(request, context)

    def GetCapabilities(self, request: Any, context: Any) -> Any:  # noqa: N802
        assert self._unary is not None
        return self._unary(request, context)


@contextlib.contextmanager
def serving(servicer: Servicer) -> Iterator[str]:
    """Serve on a free port of the loopback while the block runs, and yield the address."""
    with futures.ThreadPoolExecutor(max_workers=8) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        service_pb2_grpc.add_PreprocessingServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait(30)


def answering(
    answer: Callable[[Any], list[Any]] | None = None,
    *,
    path: wire.Wire = wire.CPU,
    limits: Any = wire.LIMITS,
    **ready: Any,
) -> Script:
    """Return the script of a good server: it answers each item at once, by default with features from its id."""

    def whole(item: Any) -> list[Any]:
        return path.whole_item(item.id, item.label, first_value=float(item.id))

    def script(requests: Iterator[Any], _context: grpc.ServicerContext) -> Iterator[Any]:
        assert next(requests).HasField("config")
        yield path.ready(limits=limits, **ready)
        counts = {"completion": 0, "error": 0}
        for request in requests:
            if request.WhichOneof("payload") == "item":
                for response in (answer or whole)(request.item):
                    kind = response.WhichOneof("payload")
                    counts.update({kind: counts[kind] + 1} if kind in counts else {})
                    yield response
        yield path.summary(counts["completion"], counts["error"])

    return script


def holding(*, path: wire.Wire = wire.CPU, limits: Any = wire.LIMITS) -> Script:
    """Return the script of a server that plans each item and ends it only when it is cancelled."""

    def script(requests: Iterator[Any], _context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield path.ready(limits=limits)
        cancelled = 0
        for request in requests:
            match request.WhichOneof("payload"):
                case "item":
                    yield path.plan(request.item.id)
                case "cancellation":
                    cancelled += 1
                    yield path.error(request.cancellation.id, 17, message="cancelled")
                case _:
                    pass
        yield path.summary(cancelled=cancelled)

    return script


def scripted(*responses: Any, requests_first: int = 1, half_close: bool = True) -> Script:
    """Return a script that takes some requests, sends fixed responses, and waits for the half-close."""

    def script(requests: Iterator[Any], _context: grpc.ServicerContext) -> Iterator[Any]:
        for _ in range(requests_first):
            next(requests)
        yield from responses
        if half_close:
            for _ in requests:
                pass

    return script


class Gate:
    """Lets a script wait for the test, for a bounded time."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def open(self) -> None:
        self._event.set()

    def is_open(self) -> bool:
        return self._event.is_set()

    def wait(self) -> None:
        assert self._event.wait(30), "Expected the test to open the gate"
