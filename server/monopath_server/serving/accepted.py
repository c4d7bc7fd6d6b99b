"""The accepted items of one stream: each has a task, holds a charge, and ends exactly once through the outbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from monopath.v1 import event_pb2, local_pb2
from monopath_server.delivery.deliveries import Delivery
from monopath_server.delivery.parts import TransportKind, part_bytes, part_transport
from monopath_server.delivery.uploads import SegmentBytes, UploadedImageWork, Uploads
from monopath_server.engine.budget import Charge, Load
from monopath_server.engine.items import Features
from monopath_server.engine.work import ItemWork
from monopath_server.engine.workers import CancelToken
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.observer import CURRENT_ITEM_ID, Ended, ItemFacts, StreamWatch
from monopath_server.processors.types import ElementType
from monopath_server.serving.enums import CACHE_OUTCOMES
from monopath_server.serving.events import provenance_message, timings_message
from monopath_server.serving.outbox import Ending, Outbox
from monopath_server.serving.paths import PathMessages
from monopath_server.serving.plans import plan_message
from monopath_server.serving.requests import ItemHeader, feature_bytes
from monopath_server.serving.status import as_item_fault, item_error_message

__all__ = ["AcceptedItems"]

ResponseT = TypeVar("ResponseT")


@dataclass(slots=True)
class _Item:
    """An accepted item whose end is not written yet."""

    id: int
    label: str
    charge: Charge
    token: CancelToken
    facts: ItemFacts | None
    """For observers, if there are any."""
    work: ItemWork | None = None
    task: asyncio.Task[Features] | None = None

    @property
    def awaits_input(self) -> bool:
        """Bytes of its own are still to come."""
        return self.work is not None and self.work.input is not None and self.work.input.is_awaited


class AcceptedItems(Generic[ResponseT]):
    """Runs a stream's items and counts what becomes of them. Used on the event loop only."""

    def __init__(
        self,
        path: PathMessages[ResponseT],
        element_type: ElementType,
        delivery: Delivery,
        uploads: Uploads | None,
        outbox: Outbox[ResponseT | bytes],
        watch: StreamWatch,
        make_charge: Callable[[], Charge],
        on_end: Callable[[], None],
    ) -> None:
        """`uploads` is None for a stream that takes no handles. `on_end` is called when an item's end was written."""
        self._path = path
        self._element_type = element_type
        self._delivery = delivery
        self._uploads = uploads
        self._outbox = outbox
        self._watch = watch
        self._make_charge = make_charge
        self._on_end = on_end
        self._items: dict[int, _Item] = {}
        self._is_torn_down = False
        self.summary = event_pb2.Summary()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def await_input(self) -> bool:
        """An item waits for bytes of its own, so that it can only end if reading goes on."""
        return any(item.awaits_input for item in self._items.values())

    @property
    def all_await_input(self) -> bool:
        """Every item, if there is one, waits for its client."""
        return all(item.awaits_input for item in self._items.values())

    def accept(self, header: ItemHeader, begin: Callable[[ItemHeader], ItemWork], *, has_room: bool) -> None:
        """Take an item on, under an id that no other item of the stream had."""
        token = CURRENT_ITEM_ID.set(header.id)  # what is begun here takes it along
        try:
            self._accept(header, begin, has_room=has_room)
        finally:
            CURRENT_ITEM_ID.reset(token)

    def _accept(self, header: ItemHeader, begin: Callable[[ItemHeader], ItemWork], *, has_room: bool) -> None:
        facts = self._watch.item(header.id, header.traceparent)
        item = _Item(header.id, header.label, self._make_charge(), CancelToken(id(self)), facts)
        self._items[item.id] = item
        self.summary.accepted_count += 1
        self._outbox.expect(item.id)
        try:
            if not has_room:
                raise ItemFault(
                    ItemReason.OVERLOADED,
                    "Expected the rest of unfinished items before another one: the stream is full",
                )
            item.work = begin(header)
            item.charge.grow(Load(bytes=item.work.size_bytes))
        except Exception as error:
            if item.work is not None:
                item.work.release()
                item.work = None  # its bytes are not counted, so they must not wait for the error to be written
            self._fail(item, error)
            return
        if item.work.input is None:
            is_uploaded = isinstance(item.work, UploadedImageWork)
            self._count_received(
                item, item.work.size_bytes, TransportKind.SHARED_MEMORY if is_uploaded else TransportKind.INLINE
            )
        item.task = asyncio.create_task(self._run(item, item.work))
        item.task.add_done_callback(lambda task: self._end(item, task))

    def cancel(self, item_id: int) -> None:
        """Drop an item, if it has not ended."""
        item = self._items.get(item_id)
        if item is not None and item.task is not None:
            item.token.cancel()
            item.task.cancel()

    def take_bytes(self, message: local_pb2.LocalItemFeatures) -> None:
        """Give an item bytes of its own; those of an item that has failed are discarded."""
        item = self._items.get(message.id)
        if item is None or item.work is None or item.work.input is None:
            return
        try:
            found = feature_bytes(message, self._uploads)
        except ItemFault as fault:
            item.work.input.fail(fault)
            return
        if isinstance(found, SegmentBytes):
            self._count_received(item, found.length_bytes, TransportKind.SHARED_MEMORY)
            item.work.input.read_from(found.read_into, found.length_bytes)
        else:
            self._count_received(item, len(found.data), TransportKind.INLINE)
            item.work.input.write(found.offset_bytes, found.data)

    def end_input(self) -> None:
        """No more bytes will come: items that wait for theirs fail."""
        for item in self._items.values():
            if item.work is not None and item.work.input is not None:
                item.work.input.end()

    def release(self, item_id: int) -> None:
        """Take memory back that the client reads no more."""
        self._delivery.release(item_id)

    def tear_down(self) -> list[asyncio.Task[Features]]:
        """Leave nothing behind. Nothing is put into the outbox any more. Returns the cancelled tasks."""
        self._is_torn_down = True
        tasks: list[asyncio.Task[Features]] = []
        for item in self._items.values():
            item.token.cancel()
            item.charge.release()
            self._tell_end(item, Ended.ABANDONED)
            if item.task is not None:
                item.task.cancel()
                tasks.append(item.task)
        self._delivery.close()
        return tasks

    async def _run(self, item: _Item, work: ItemWork) -> Features:
        plan = await work.plan()
        if item.facts is not None:
            item.facts.planned_ns = time.perf_counter_ns()
            item.facts.token_count = plan.token_count
        load = Load(bytes=plan.feature_bytes(self._element_type), pixels=work.pixel_count)
        plan_event = event_pb2.ItemPlan(id=item.id, path=self._path.path, plan=plan_message(plan, self._element_type))
        self._outbox.put_event(self._path.shared("plan", plan_event))
        return await self._delivery.prepare(
            await work.features(item.token, self._delivery.place, lambda: item.charge.grow(load))
        )

    def _end(self, item: _Item, task: asyncio.Task[Features]) -> None:
        """An item's task is over: put its end in its turn. A callback, since a task can be cancelled unstarted."""
        if item.work is not None:
            item.work.release()
        # A failed task holds its frames, and they the item: without this only the garbage collector frees its bytes.
        item.work = item.task = None
        if task.cancelled():
            if not self._is_torn_down:
                self._fail(item, ItemFault(ItemReason.CANCELLED, "The client cancelled the item"))
        elif (error := task.exception()) is not None:
            if not self._is_torn_down:
                self._fail(item, error if isinstance(error, Exception) else RuntimeError(repr(error)))
        elif self._is_torn_down:
            task.result().holding.release()
        else:
            self._complete(item, task.result())

    def _complete(self, item: _Item, features: Features) -> None:
        facts = item.facts
        if facts is not None:
            facts.made_ns = time.perf_counter_ns()
            facts.timings = features.timings
            facts.cache = features.cache

        def responses() -> Iterator[ResponseT | bytes]:
            for part in self._delivery.parts(item.id, features.holding):
                self.summary.sent_bytes += part_bytes(part)
                if facts is not None:
                    facts.send(part_bytes(part), part_transport(part))
                yield self._path.features(item.id, part)
            self.summary.fallback_count = self._delivery.fallback_count
            yield self._path.completion(
                item.id,
                item.label,
                provenance_message(self._path.path, features.provenance),
                timings_message(features.timings),
                CACHE_OUTCOMES.to_wire(features.cache),
            )

        def done(was_written: bool) -> None:
            features.holding.release()
            if was_written:
                self.summary.completed_count += 1
                self._forget(item, Ended.COMPLETED)

        self._outbox.put_ending(item.id, Ending(responses(), done))

    def _fail(self, item: _Item, error: Exception) -> None:
        fault = as_item_fault(error)
        # Not the fault itself goes along: its traceback would hold the image until its error is written.
        reason, message = fault.reason, item_error_message(item.id, item.label, fault)

        def done(was_written: bool) -> None:
            if was_written:
                if reason is ItemReason.CANCELLED:
                    self.summary.cancelled_count += 1
                else:
                    self.summary.failed_count += 1
                self._forget(item, reason)

        self._outbox.put_ending(item.id, Ending(iter((self._path.shared("error", message),)), done))

    def _forget(self, item: _Item, ending: Ended | ItemReason) -> None:
        """The item's end is written: it makes room for another one."""
        del self._items[item.id]
        item.charge.release()
        self._tell_end(item, ending)
        self._on_end()

    def _count_received(self, item: _Item, size_bytes: int, transport: TransportKind) -> None:
        self.summary.received_bytes += size_bytes
        if item.facts is not None:
            item.facts.receive(size_bytes, transport)

    def _tell_end(self, item: _Item, ending: Ended | ItemReason) -> None:
        if item.facts is not None:
            self._watch.item_ended(item.facts, ending)
