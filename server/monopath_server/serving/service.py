"""The five methods. A stream's method names its path; everything else is the session's."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar, cast

import grpc
from grpc_status import rpc_status

from monopath.v1 import event_pb2, service_pb2, service_pb2_grpc
from monopath_server.engine.budget import Budget, Load
from monopath_server.engine.engines import Engines
from monopath_server.faults import StreamFault, StreamReason
from monopath_server.observer import CURRENT_STREAM, Ended, Observer, StreamFacts, StreamWatch
from monopath_server.serving.capabilities import capabilities
from monopath_server.serving.openings import Openings
from monopath_server.serving.paths import DEFERRED_CPU, DEFERRED_CUDA, LOCAL, PathMessages
from monopath_server.serving.peers import Peers
from monopath_server.serving.planning import plan_images
from monopath_server.serving.requests import Request
from monopath_server.serving.session import Opener, StreamSession
from monopath_server.serving.status import as_stream_fault, status_of
from monopath_server.settings import Settings

__all__ = ["PreprocessingServicer"]

ResponseT = TypeVar("ResponseT")
logger = logging.getLogger(__name__)
RequestT = TypeVar("RequestT")
ABORT_SECONDS = 1.0

LocalContext = grpc.aio.ServicerContext[service_pb2.StreamLocalRequest, service_pb2.StreamLocalResponse]
DeferredCudaContext = grpc.aio.ServicerContext[
    service_pb2.StreamDeferredCudaRequest, service_pb2.StreamDeferredCudaResponse
]
DeferredCpuContext = grpc.aio.ServicerContext[
    service_pb2.StreamDeferredCpuRequest, service_pb2.StreamDeferredCpuResponse
]


class PreprocessingServicer(service_pb2_grpc.PreprocessingServiceServicer):
    """Serves the contract's service, and knows the live streams."""

    def __init__(self, settings: Settings, engines: Engines, observer: Observer | None = None) -> None:
        self._settings = settings
        self._observer = observer or Observer()
        self._stream_ids = itertools.count(1)
        self._engines = engines
        self._openings = Openings(settings, engines)
        self._peers = Peers(settings.security)
        self._sessions: set[StreamSession[Any]] = set()
        self._all_left = asyncio.Event()
        self._all_left.set()
        self._is_draining = False
        self._budget = Budget(Load(settings.max_process_items, settings.max_process_bytes, settings.max_process_pixels))

    @property
    def unfinished(self) -> Load:
        """Items without an end, on all streams. Safe to read in every thread."""
        return self._budget.used

    @property
    def open_streams(self) -> Counter[str]:
        """Streams by the names of their paths. Safe to read in every thread."""
        return Counter(session.path_name for session in tuple(self._sessions))

    # The handlers write through the context instead of yielding: a generator that is cancelled while gRPC writes would
    # be closed late, by the garbage collector, and with it the stream's buffers. The generated base class knows only
    # yielding.

    async def StreamLocal(  # type: ignore[override]
        self,
        request_iterator: AsyncIterator[service_pb2.StreamLocalRequest],
        context: LocalContext,
    ) -> None:
        """Finished features in; checked and converted features out."""
        await self._serve(LOCAL, self._openings.local, request_iterator, context)

    async def StreamDeferredCuda(  # type: ignore[override]
        self,
        request_iterator: AsyncIterator[service_pb2.StreamDeferredCudaRequest],
        context: DeferredCudaContext,
    ) -> None:
        """Images in; features made by the server's GPU out."""
        await self._serve(DEFERRED_CUDA, self._openings.deferred_cuda, request_iterator, context)

    async def StreamDeferredCpu(  # type: ignore[override]
        self,
        request_iterator: AsyncIterator[service_pb2.StreamDeferredCpuRequest],
        context: DeferredCpuContext,
    ) -> None:
        """Images in; features made by the server's CPU out."""
        await self._serve(DEFERRED_CPU, self._openings.deferred_cpu, request_iterator, context)

    async def Plan(
        self,
        request: service_pb2.PlanRequest,
        context: grpc.aio.ServicerContext[service_pb2.PlanRequest, service_pb2.PlanResponse],
    ) -> service_pb2.PlanResponse:
        """Geometry, token counts and encoder ranks from sizes alone, without pixels."""
        try:
            return await asyncio.to_thread(plan_images, request, self._settings)
        except Exception as error:
            await _abort(context, as_stream_fault(error))

    async def GetCapabilities(
        self,
        request: service_pb2.GetCapabilitiesRequest,
        context: grpc.aio.ServicerContext[service_pb2.GetCapabilitiesRequest, service_pb2.GetCapabilitiesResponse],
    ) -> service_pb2.GetCapabilitiesResponse:
        """What this server can do, and why it cannot do the rest."""
        try:
            return capabilities(self._settings, self._engines)
        except Exception as error:
            await _abort(context, as_stream_fault(error))

    async def wait_until_left(self, timeout_seconds: float) -> None:
        """Wait, within a bound, until the handlers of all streams have cleaned up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._all_left.wait()

    def start_draining(self) -> None:
        """Refuse new streams and ask the live ones to end."""
        self._is_draining = True
        for session in self._sessions:
            session.go_away(event_pb2.GOAWAY_REASON_DRAINING)

    async def _serve(
        self,
        path: PathMessages[ResponseT],
        opener: Opener,
        requests: AsyncIterator[Request],
        context: grpc.aio.ServicerContext[RequestT, ResponseT],
    ) -> None:
        stream = StreamFacts(next(self._stream_ids), path.method, path.name, context.peer())
        CURRENT_STREAM.set(stream)
        watch = StreamWatch(self._observer, stream)
        with contextlib.ExitStack() as leaving:
            leaving.callback(watch.ended)
            try:
                self._check_welcome()
                peer = self._peers.enter(context)
                leaving.callback(self._peers.leave, peer)
                # gRPC's types know only messages; the handlers take serialised ones as well.
                write = cast("Callable[[ResponseT | bytes], Awaitable[None]]", context.write)
                budgets = (peer.budget, self._budget)
                session = StreamSession(path, opener, aiter(requests), write, self._settings, budgets, watch)
                self._list(session)
                leaving.callback(self._unlist, session)
                await session.run()
                stream.ending = Ended.COMPLETED
            except Exception as error:
                await _fail(stream, context, as_stream_fault(error))

    def _list(self, session: StreamSession[Any]) -> None:
        self._sessions.add(session)
        self._all_left.clear()

    def _unlist(self, session: StreamSession[Any]) -> None:
        self._sessions.discard(session)
        if not self._sessions:
            self._all_left.set()

    def _check_welcome(self) -> None:
        """Whether another stream may begin. A refusal goes out at once, before any header: gRPC then knows that nothing
        was processed, and may try another replica."""
        if self._is_draining:
            raise StreamFault(StreamReason.DRAINING, "The server is stopping")
        if len(self._sessions) >= self._settings.max_streams:
            message = f"Expected at most {self._settings.max_streams} streams at the same time, got one more"
            raise StreamFault(StreamReason.OVERLOADED, message)


async def _fail(
    stream: StreamFacts, context: grpc.aio.ServicerContext[RequestT, ResponseT], fault: StreamFault
) -> NoReturn:
    # A function of its own: a fault that its own traceback's frames hold is freed by the garbage collector alone.
    stream.ending = fault.reason
    await _abort(context, fault)


async def _abort(context: grpc.aio.ServicerContext[RequestT, ResponseT], fault: StreamFault) -> NoReturn:
    status = rpc_status.to_status(status_of(fault))
    try:
        async with asyncio.timeout(ABORT_SECONDS):
            await context.abort(status.code, status.details, status.trailing_metadata)
    except TimeoutError:
        # A response is stuck in flow control. The status is queued behind it, for a client that reads on after all.
        raise asyncio.CancelledError from None
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError:
        # A response is stuck in flow control, and a status can only follow it: the client that reads nothing gets none.
        # gRPC drops the call when its handler is cancelled, and says so at the client as CANCELLED.
        logger.warning("Dropped a stream without a status: %s: %s", fault.reason.name, fault.message)
        raise asyncio.CancelledError from None
