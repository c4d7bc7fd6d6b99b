"""The accepted items of one stream: each has a task, holds a charge, and ends exactly once through the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from monopath.v1 import error_pb2, event_pb2, local_pb2
from monopath_server.engine.budget import Charge, Load
from monopath_server.engine.items import Features
from monopath_server.engine.work import ItemWork
from monopath_server.engine.workers import CancelToken
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.serving.configs import OutputSettings
from monopath_server.serving.events import plan_message, provenance_message, timings_message
from monopath_server.serving.outbox import Ending, Outbox
from monopath_server.serving.paths import PathMessages
from monopath_server.serving.requests import ItemHeader, feature_bytes
from monopath_server.serving.status import item_error_message

__all__ = ["AcceptedItems"]

ResponseT = TypeVar("ResponseT")


@dataclass(slots=True)
class _Item:
    """An accepted item whose end is not written yet."""

    id: int
    label: str
    charge: Charge
    token: CancelToken
    work: ItemWork | None = None
    task: asyncio.Task[Features] | None = None


class AcceptedItems(Generic[ResponseT]):
    """Runs a stream's items and counts what becomes of them. Used on the event loop only."""

    def __init__(
        self,
        path: PathMessages[ResponseT],
        output: OutputSettings,
        outbox: Outbox[ResponseT],
        make_charge: Callable[[], Charge],
        on_end: Callable[[], None],
    ) -> None:
        """`on_end` is called whenever an item's end was written."""
        self._path = path
        self._output = output
        self._outbox = outbox
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
        return any(item.work is not None and item.work.awaits_input for item in self._items.values())

    @property
    def all_await_input(self) -> bool:
        """Every item, if there is one, waits for its client."""
        return all(item.work is not None and item.work.awaits_input for item in self._items.values())

    def accept(self, header: ItemHeader, begin: Callable[[ItemHeader], ItemWork], *, has_room: bool) -> None:
        """Take an item on, under an id that no other item of the stream had."""
        item = self._items[header.id] = _Item(header.id, header.label, self._make_charge(), CancelToken(id(self)))
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
        if not item.work.awaits_input:
            self.summary.received_bytes += item.work.size_bytes
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
        if item is None or item.work is None:
            return
        try:
            found = feature_bytes(message)
        except ItemFault as fault:
            item.work.fail_input(fault)
        else:
            self.summary.received_bytes += len(found.data)
            item.work.write(found.offset_bytes, found.data)

    def end_input(self) -> None:
        """No more bytes will come: items that wait for theirs fail."""
        for item in self._items.values():
            if item.work is not None:
                item.work.end_of_input()

    def tear_down(self) -> list[asyncio.Task[Features]]:
        """Leave nothing behind. Nothing is put into the outbox any more. Returns the cancelled tasks."""
        self._is_torn_down = True
        tasks: list[asyncio.Task[Features]] = []
        for item in self._items.values():
            item.token.cancel()
            item.charge.release()
            if item.task is not None:
                item.task.cancel()
                tasks.append(item.task)
        return tasks

    async def _run(self, item: _Item, work: ItemWork) -> Features:
        plan = await work.plan()
        element_type = self._output.element_type
        item.charge.grow(Load(bytes=plan.feature_bytes(element_type), pixels=work.pixel_count))
        plan_event = event_pb2.ItemPlan(id=item.id, path=self._path.path, plan=plan_message(plan, element_type))
        self._outbox.put_event(self._path.shared("plan", plan_event))
        return await work.features(item.token)

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
            task.result().buffer.release()
        else:
            self._complete(item, task.result())

    def _complete(self, item: _Item, features: Features) -> None:
        chunk_bytes = self._output.chunk_bytes

        def responses() -> Iterator[ResponseT]:
            view = features.buffer.array.data
            for offset_bytes in range(0, len(view), chunk_bytes):
                data = bytes(view[offset_bytes : offset_bytes + chunk_bytes])
                self.summary.sent_bytes += len(data)
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
                self.summary.completed_count += 1
                self._forget(item)

        self._outbox.put_ending(item.id, Ending(responses(), done))

    def _fail(self, item: _Item, error: Exception) -> None:
        message = item_error_message(item.id, item.label, error)

        def done(was_written: bool) -> None:
            if was_written:
                if message.reason == error_pb2.ITEM_ERROR_REASON_CANCELLED:
                    self.summary.cancelled_count += 1
                else:
                    self.summary.failed_count += 1
                self._forget(item)

        self._outbox.put_ending(item.id, Ending(iter((self._path.shared("error", message),)), done))

    def _forget(self, item: _Item) -> None:
        """The item's end is written: it makes room for another one."""
        del self._items[item.id]
        item.charge.release()
        self._on_end()
