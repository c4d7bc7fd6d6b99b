"""The state machine of one stream. The three paths share it; what differs is in `PathMessages` and in the opening."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from monopath.v1 import error_pb2, event_pb2, local_pb2

from monopath_server.engine.budget import StreamBudget
from monopath_server.engine.items import Features
from monopath_server.engine.work import ItemWork
from monopath_server.engine.workers import CancelToken
from monopath_server.faults import ItemFault, ItemReason, StreamFault, StreamReason
from monopath_server.serving.configs import OutputSettings, ResolvedProcessor
from monopath_server.serving.events import plan_message, provenance_message, ready_message, timings_message
from monopath_server.serving.outbox import Ending, Outbox
from monopath_server.serving.paths import PathMessages
from monopath_server.serving.requests import Config, ItemHeader, Request, feature_bytes, payload_of
from monopath_server.serving.status import as_stream_fault, failure_message, item_error_message
from monopath_server.settings import Settings

__all__ = ["OpenedPath", "StreamSession"]

ResponseT = TypeVar("ResponseT")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedPath:
    """What an accepted config gives a stream."""

    processor: ResolvedProcessor
    output: OutputSettings
    device: str
    begin: Callable[[ItemHeader], ItemWork]
    """Makes the work of an item. Raises `ItemFault`."""


class Opener(Protocol):
    """Opens a path with a config. Raises `ConfigFault` or `StreamFault`."""

    async def __call__(self, config: Config) -> OpenedPath: ...


@dataclass(slots=True)
class _Item:
    """An accepted item that has no written end yet."""

    id: int
    label: str
    charged_bytes: int
    work: ItemWork | None = None
    task: asyncio.Task[Features] | None = None
    token: CancelToken = field(default_factory=CancelToken)


class StreamSession(Generic[ResponseT]):
    """One stream, from its config to its end.

    Three things run at the same time: a reader that accepts items as long as the budget has room, a task for each item,
    and `run` itself, which alone writes. Every item ends exactly once, through the outbox.
    """

    def __init__(
        self,
        path: PathMessages[ResponseT],
        opener: Opener,
        requests: AsyncIterator[Request],
        write: Callable[[ResponseT], Awaitable[None]],
        settings: Settings,
    ) -> None:
        self._path = path
        self._opener = opener
        self._requests = requests
        self._write = write
        self._settings = settings
        self._budget = StreamBudget(settings.max_unfinished_items, settings.max_unfinished_bytes)
        self._items: dict[int, _Item] = {}
        self._last_id = 0
        self._input_is_over = False
        self._is_torn_down = False
        self._fault: StreamFault | None = None
        self._summary = event_pb2.Summary()
        self._outbox: Outbox[ResponseT] | None = None
        self._goaway_reason: event_pb2.GoawayReason.ValueType = event_pb2.GOAWAY_REASON_UNSPECIFIED

    async def run(self) -> None:
        """Serve the stream until its good end.

        Raises:
            StreamFault: the reason the stream ends with a bad status, after its accepted items were answered.
        """
        try:
            opened = await self._opener(await self._read_config())
        except Exception as error:
            fault = as_stream_fault(error)
            await self._write(self._path.shared("failure", failure_message(fault)))
            await self._discard_input()
            raise fault from None
        outbox = self._outbox = Outbox[ResponseT](as_sent=opened.output.as_sent)
        ready = ready_message(self._path.path, opened.processor, opened.output, opened.device, self._settings)
        outbox.put_event(self._path.shared("ready", ready))
        if self._goaway_reason != event_pb2.GOAWAY_REASON_UNSPECIFIED:
            self.go_away(self._goaway_reason)
        reader = asyncio.create_task(self._read_items(opened, outbox))
        try:
            async for response in outbox:
                await self._write(response)
            await reader
        finally:
            await self._tear_down(reader, outbox)
        if self._fault is not None:
            raise self._fault
        await self._write(self._path.shared("summary", self._summary))

    def go_away(self, reason: event_pb2.GoawayReason.ValueType) -> None:
        """Ask the client to send no more items here and to open another stream; of one that is still opening, later."""
        self._goaway_reason = reason
        if self._outbox is not None and not self._input_is_over:
            self._outbox.put_event(self._path.shared("goaway", event_pb2.Goaway(reason=reason)))

    async def _read_config(self) -> Config:
        async for request in self._requests:
            payload = payload_of(request)
            if isinstance(payload, Config):
                return payload
            raise StreamFault(
                StreamReason.CONFIG_MISSING, f"Expected a config as the first message, got {type(payload).__name__}"
            )
        raise StreamFault(StreamReason.CONFIG_MISSING, "Expected a config as the first message, got none")

    async def _read_items(self, opened: OpenedPath, outbox: Outbox[ResponseT]) -> None:
        try:
            while True:
                # Items that wait for bytes of their own can only end if reading goes on, whatever the budget says.
                if not any(item.work is not None and item.work.awaits_input for item in self._items.values()):
                    await self._budget.wait_for_room()
                request = await anext(self._requests, None)
                if request is None:
                    break
                self._handle(request, opened, outbox)
        except Exception as error:
            self._fault = as_stream_fault(error)
            outbox.put_event(self._path.shared("failure", failure_message(self._fault)))
            self._end_input()
            await self._discard_input()
        self._end_input()
        self._input_is_over = True
        self._close_if_over()

    def _handle(self, request: Request, opened: OpenedPath, outbox: Outbox[ResponseT]) -> None:
        payload = payload_of(request)
        match payload:
            case event_pb2.Cancellation():
                self._check_known(payload.id)
                self._cancel(payload.id)
            case event_pb2.Release():
                self._check_known(payload.id)  # inline features hold nothing that a client could release
            case local_pb2.LocalItemFeatures():
                self._check_known(payload.id)
                self._take_bytes(payload)
            case _ if isinstance(payload, ItemHeader):
                self._accept(payload, opened, outbox)
            case _:
                raise StreamFault(StreamReason.CONFIG_REPEATED, "Expected one config on a stream, got another")

    def _accept(self, header: ItemHeader, opened: OpenedPath, outbox: Outbox[ResponseT]) -> None:
        if header.id <= self._last_id:
            raise StreamFault(
                StreamReason.ITEM_ID_INVALID, f"Expected an item id larger than {self._last_id}, got {header.id}"
            )
        self._last_id = header.id
        had_room = self._budget.has_room
        item = self._items[header.id] = _Item(header.id, header.label, 0)
        self._budget.add_item(0)
        self._summary.accepted_count += 1
        outbox.expect(item.id)
        try:
            if not had_room:
                raise ItemFault(
                    ItemReason.OVERLOADED,
                    "Expected the bytes of unfinished items before another item: the stream is full",
                )
            item.work = opened.begin(header)
        except Exception as error:
            self._fail(item, error, outbox)
            return
        self._charge(item, item.work.size_bytes)
        if not item.work.awaits_input:
            self._summary.received_bytes += item.work.size_bytes
        item.task = asyncio.create_task(self._run_item(item, item.work, opened, outbox))
        item.task.add_done_callback(lambda task: self._end(item, task, opened.output.chunk_bytes, outbox))

    async def _run_item(self, item: _Item, work: ItemWork, opened: OpenedPath, outbox: Outbox[ResponseT]) -> Features:
        plan = await work.plan()
        element_type = opened.output.element_type
        self._charge(item, plan.feature_bytes(element_type))
        plan_event = event_pb2.ItemPlan(id=item.id, path=self._path.path, plan=plan_message(plan, element_type))
        outbox.put_event(self._path.shared("plan", plan_event))
        return await work.features(item.token)

    def _end(self, item: _Item, task: asyncio.Task[Features], chunk_bytes: int, outbox: Outbox[ResponseT]) -> None:
        """An item's task is over: put the item's end in its turn."""
        if item.work is not None:
            item.work.release()
        if task.cancelled():
            if not self._is_torn_down:
                self._fail(item, ItemFault(ItemReason.CANCELLED, "The client cancelled the item"), outbox)
        elif (error := task.exception()) is not None:
            if not self._is_torn_down:
                self._fail(item, error if isinstance(error, Exception) else RuntimeError(repr(error)), outbox)
        elif self._is_torn_down:
            task.result().buffer.release()
        else:
            self._complete(item, task.result(), chunk_bytes, outbox)

    def _complete(self, item: _Item, features: Features, chunk_bytes: int, outbox: Outbox[ResponseT]) -> None:
        def responses() -> Iterator[ResponseT]:
            view = features.buffer.array.data
            for offset_bytes in range(0, len(view), chunk_bytes):
                data = bytes(view[offset_bytes : offset_bytes + chunk_bytes])
                self._summary.sent_bytes += len(data)
                yield self._path.features(item.id, offset_bytes, data)
            yield self._path.completion(
                item.id,
                item.label,
                provenance_message(self._path.path, features.provenance),
                timings_message(features.timings),
            )

        def done(was_written: bool) -> None:
            features.buffer.release()
            if was_written:
                self._summary.completed_count += 1
                self._forget(item)

        outbox.put_ending(item.id, Ending(responses(), done))

    def _fail(self, item: _Item, error: Exception, outbox: Outbox[ResponseT]) -> None:
        message = item_error_message(item.id, item.label, error)

        def done(was_written: bool) -> None:
            if was_written:
                if message.reason == error_pb2.ITEM_ERROR_REASON_CANCELLED:
                    self._summary.cancelled_count += 1
                else:
                    self._summary.failed_count += 1
                self._forget(item)

        outbox.put_ending(item.id, Ending(iter((self._path.shared("error", message),)), done))

    def _charge(self, item: _Item, size_bytes: int) -> None:
        item.charged_bytes += size_bytes
        self._budget.add_bytes(size_bytes)

    def _forget(self, item: _Item) -> None:
        """The item's end is written: it makes room for another one."""
        del self._items[item.id]
        self._budget.end_item(item.charged_bytes)
        self._close_if_over()

    def _check_known(self, item_id: int) -> None:
        if not 0 < item_id <= self._last_id:
            raise StreamFault(StreamReason.ITEM_ID_INVALID, f"Expected the id of an item that was sent, got {item_id}")

    def _cancel(self, item_id: int) -> None:
        item = self._items.get(item_id)
        if item is not None and item.task is not None:
            item.token.cancel()
            item.task.cancel()

    def _take_bytes(self, message: local_pb2.LocalItemFeatures) -> None:
        item = self._items.get(message.id)
        if item is None or item.work is None:
            return  # the item has failed; the rest of its bytes is discarded
        try:
            found = feature_bytes(message)
        except ItemFault as fault:
            item.work.fail_input(fault)
        else:
            self._summary.received_bytes += len(found.data)
            item.work.write(found.offset_bytes, found.data)

    def _end_input(self) -> None:
        for item in self._items.values():
            if item.work is not None:
                item.work.end_of_input()

    def _close_if_over(self) -> None:
        if self._input_is_over and not self._items and self._outbox is not None:
            self._outbox.close()

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

    async def _tear_down(self, reader: asyncio.Task[None], outbox: Outbox[ResponseT]) -> None:
        """Leave nothing behind, whichever way the stream ends."""
        self._is_torn_down = True
        reader.cancel()
        tasks: list[asyncio.Task[Features]] = []
        for item in self._items.values():
            item.token.cancel()
            if item.task is not None:
                item.task.cancel()
                tasks.append(item.task)
        await asyncio.gather(reader, *tasks, return_exceptions=True)
        outbox.drop()
