"""The state machine of one stream. The three paths share it; what differs is in `PathMessages` and in the opening."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from monopath.v1 import event_pb2, local_pb2
from monopath_server.delivery.deliveries import Delivery
from monopath_server.delivery.uploads import Uploads
from monopath_server.engine.budget import Budget, Charge, Load
from monopath_server.engine.work import ItemWork
from monopath_server.faults import StreamFault, StreamReason
from monopath_server.observer import StreamWatch
from monopath_server.serving.accepted import AcceptedItems
from monopath_server.serving.configs import OutputSettings, ResolvedProcessor
from monopath_server.serving.events import ready_message
from monopath_server.serving.groups import Grouped
from monopath_server.serving.outbox import Outbox
from monopath_server.serving.paths import PathMessages
from monopath_server.serving.requests import Config, ItemHeader, Request, payload_of
from monopath_server.serving.status import as_stream_fault, failure_message
from monopath_server.settings import Settings

__all__ = ["OpenedPath", "Opener", "StreamSession"]

ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class OpenedPath:
    """What an accepted config gives a stream."""

    processor: ResolvedProcessor
    output: OutputSettings
    device: str
    begin: Callable[[ItemHeader], ItemWork]
    """Makes the work of an item. Raises `ItemFault`."""
    delivery: Delivery
    uploads: Uploads | None
    """The client's handles; None where it cannot send any."""
    offer: event_pb2.SharedMemoryOffer | event_pb2.CudaIpcOffer | None
    """What the client has to know of the transport."""


class Opener(Protocol):
    """Opens a path with a config. Raises `ConfigFault` or `StreamFault`."""

    async def __call__(self, config: Config) -> OpenedPath: ...


class StreamSession(Generic[ResponseT]):
    """One stream, from its config to its end.

    Three things run at the same time: a reader that accepts items as long as the budget has room, a task for each item,
    and `run` itself, which alone writes.
    """

    def __init__(
        self,
        path: PathMessages[ResponseT],
        opener: Opener,
        requests: AsyncIterator[Request],
        write: Callable[[ResponseT | bytes], Awaitable[None]],
        settings: Settings,
        shared_budgets: tuple[Budget, ...],
        watch: StreamWatch,
    ) -> None:
        """`shared_budgets` are those of the client and of the process."""
        self._path = path
        self._watch = watch
        self._opener = opener
        self._requests = requests
        self._write_response = write
        self._settings = settings
        self._budget = Budget(
            Load(settings.max_unfinished_items, settings.max_unfinished_bytes, settings.max_unfinished_pixels)
        )
        self._shared_budgets = shared_budgets
        self._last_id = 0
        self._last_heard = time.monotonic()
        self._input_is_over = False
        self._fault: StreamFault | None = None
        self._outbox: Outbox[ResponseT | bytes] | None = None
        self._goaway_reason: event_pb2.GoawayReason.ValueType = event_pb2.GOAWAY_REASON_UNSPECIFIED

    @property
    def path_name(self) -> str:
        """Name of the path, without the contract's prefix."""
        return self._path.name

    async def run(self) -> None:
        """Serve the stream until its good end.

        Raises:
            StreamFault: the reason the stream ends with a bad status, after its accepted items were answered.
        """
        opened = await self._open()
        outbox = self._outbox = Outbox[ResponseT | bytes](as_sent=opened.output.as_sent)
        ready = ready_message(
            self._path.path, opened.processor, opened.output, opened.device, opened.offer, self._settings
        )
        outbox.put_event(self._path.shared("ready", ready))
        self._watch.opened(opened.delivery.transport)
        if self._goaway_reason != event_pb2.GOAWAY_REASON_UNSPECIFIED:
            self.go_away(self._goaway_reason)
        items = AcceptedItems(
            self._path,
            opened.output.element_type,
            opened.delivery,
            opened.uploads,
            outbox,
            self._watch,
            lambda: Charge(self._budget, self._shared_budgets),
            lambda: self._close_if_over(items, outbox),
        )
        reader = asyncio.create_task(self._read_items(opened, items, outbox))
        helpers = [
            asyncio.create_task(self._watch_silence(items, reader, outbox)),
            asyncio.create_task(self._watch_age()),
        ]
        try:
            async for response in self._responses(outbox, opened.output):
                await self._write(response)
            await asyncio.gather(reader, return_exceptions=True)
        finally:
            # Nothing stays behind, whichever way the stream ends; no step here waits for the client.
            for task in (reader, *helpers):
                task.cancel()
            # All is given back before the first await: gRPC cancels a handler a second time where a deadline and a
            # failed write come together.
            tasks = items.tear_down()
            outbox.drop()
            await asyncio.gather(reader, *helpers, *tasks, return_exceptions=True)
        if self._fault is not None:
            raise self._fault
        await self._write(self._path.shared("summary", items.summary))

    def go_away(self, reason: event_pb2.GoawayReason.ValueType) -> None:
        """Ask the client to send no more items here and to open another stream; of one that is still opening, later."""
        self._goaway_reason = reason
        if self._outbox is not None and not self._input_is_over:
            self._outbox.put_event(self._path.shared("goaway", event_pb2.Goaway(reason=reason)))
            self._watch.goaway_sent(event_pb2.GoawayReason.Name(reason).removeprefix("GOAWAY_REASON_"))

    async def _open(self) -> OpenedPath:
        try:
            async with asyncio.timeout(self._settings.opening_timeout_seconds):
                config = await self._read_config()
        except TimeoutError:
            # Its own writes cannot hide the status from a client that writes nothing: it ends at once.
            raise StreamFault(
                StreamReason.CLIENT_SILENT,
                f"Expected a config within {self._settings.opening_timeout_seconds:g} seconds, got none",
            ) from None
        except Exception as error:
            raise await self._refusal(error) from None
        try:
            return await self._opener(config)
        except Exception as error:
            raise await self._refusal(error) from None

    async def _refusal(self, error: Exception) -> StreamFault:
        fault = as_stream_fault(error)
        await self._write(self._path.shared("failure", failure_message(fault)))
        await self._discard_input()
        return fault

    async def _read_config(self) -> Config:
        async for request in self._requests:
            payload = payload_of(request)
            if isinstance(payload, Config):
                return payload
            raise StreamFault(
                StreamReason.CONFIG_MISSING, f"Expected a config as the first message, got {type(payload).__name__}"
            )
        raise StreamFault(StreamReason.CONFIG_MISSING, "Expected a config as the first message, got none")

    async def _read_items(
        self, opened: OpenedPath, items: AcceptedItems[ResponseT], outbox: Outbox[ResponseT | bytes]
    ) -> None:
        try:
            while True:
                # Items that wait for bytes of their own can only end if reading goes on, whatever the budget says.
                room_was_awaited = not items.await_input
                if room_was_awaited:
                    await self._budget.wait_for_room()
                request = await anext(self._requests, None)
                if request is None:
                    break
                self._last_heard = time.monotonic()
                self._handle(request, opened, items, has_room=room_was_awaited or self._budget.has_room)
                del request  # an idle stream must not hold its last image
        except Exception as error:
            self._break(as_stream_fault(error), items, outbox)
            await self._discard_input()
        self._end_input(items, outbox)

    def _responses(self, outbox: Outbox[ResponseT | bytes], output: OutputSettings) -> AsyncIterator[ResponseT | bytes]:
        return Grouped(outbox, self._path.group) if output.groups_responses else outbox

    def _handle(self, request: Request, opened: OpenedPath, items: AcceptedItems[ResponseT], *, has_room: bool) -> None:
        payload = payload_of(request)
        match payload:
            case event_pb2.Cancellation():
                self._check_known(payload.id)
                items.cancel(payload.id)
            case event_pb2.Release():
                self._check_known(payload.id)
                items.release(payload.id)
            case local_pb2.LocalItemFeatures():
                self._check_known(payload.id)
                items.take_bytes(payload)
            case _ if isinstance(payload, ItemHeader):
                if payload.id <= self._last_id:
                    raise StreamFault(
                        StreamReason.ITEM_ID_INVALID,
                        f"Expected an item id larger than {self._last_id}, got {payload.id}",
                    )
                self._last_id = payload.id
                items.accept(payload, opened.begin, has_room=has_room)
            case _:
                raise StreamFault(StreamReason.CONFIG_REPEATED, "Expected one config on a stream, got another")

    def _check_known(self, item_id: int) -> None:
        if not 0 < item_id <= self._last_id:
            raise StreamFault(StreamReason.ITEM_ID_INVALID, f"Expected the id of an item that was sent, got {item_id}")

    def _break(self, fault: StreamFault, items: AcceptedItems[ResponseT], outbox: Outbox[ResponseT | bytes]) -> None:
        """The stream is broken: say so at once; accepted items still end before the status does."""
        self._fault = fault
        outbox.put_event(self._path.shared("failure", failure_message(fault)))
        items.end_input()

    def _end_input(self, items: AcceptedItems[ResponseT], outbox: Outbox[ResponseT | bytes]) -> None:
        items.end_input()
        self._input_is_over = True
        self._close_if_over(items, outbox)

    def _close_if_over(self, items: AcceptedItems[ResponseT], outbox: Outbox[ResponseT | bytes]) -> None:
        if self._input_is_over and not items:
            outbox.close()

    async def _write(self, response: ResponseT | bytes) -> None:
        try:
            async with asyncio.timeout(self._settings.reply_timeout_seconds):
                await self._write_response(response)
        except TimeoutError:
            raise StreamFault(
                StreamReason.REPLIES_UNREAD,
                f"Expected the client to read a response within {self._settings.reply_timeout_seconds:g} seconds",
            ) from None

    async def _watch_silence(
        self, items: AcceptedItems[ResponseT], reader: asyncio.Task[None], outbox: Outbox[ResponseT | bytes]
    ) -> None:
        """Break the stream of a client that says nothing, while no item of its waits for the server."""
        timeout = self._settings.idle_timeout_seconds
        while not self._input_is_over:
            if not items.all_await_input:
                self._last_heard = time.monotonic()
            left = self._last_heard + timeout - time.monotonic()
            if left <= 0:
                reader.cancel()
                message = f"Expected a message within {timeout:g} seconds, got none"
                self._break(StreamFault(StreamReason.CLIENT_SILENT, message), items, outbox)
                self._end_input(items, outbox)
                return
            await asyncio.sleep(min(left, timeout / 4))

    async def _watch_age(self) -> None:
        """Ask an old stream to move: no balancer moves a live one."""
        age = self._settings.max_stream_age_seconds
        if age > 0:
            jitter = self._settings.stream_age_jitter
            await asyncio.sleep(age * random.uniform(1 - jitter, 1 + jitter))  # noqa: S311 - spreads load, guards nothing
            self.go_away(event_pb2.GOAWAY_REASON_STREAM_AGE)

    async def _discard_input(self) -> None:
        """Read on until the client half-closes, so that it sees the true status and not that of its own broken writes
        (grpc/grpc#36066); bounded, since a hostile client never half-closes."""
        left_bytes = self._settings.refusal_drain_bytes
        try:
            async with asyncio.timeout(self._settings.refusal_drain_seconds):
                async for request in self._requests:
                    left_bytes -= request.ByteSize()
                    if left_bytes < 0:
                        return
        except TimeoutError:
            return
