"""What a stream writes, and in which order: events at once, then results, a message of each in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Ending", "Outbox"]

ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Ending(Generic[ResponseT]):
    """All messages that end an item, made one by one as they are written, so that a result is never copied whole."""

    responses: Iterator[ResponseT]
    done: Callable[[bool], None]
    """Called exactly once: with True after the last message was taken, with False if the ending was dropped."""


class Outbox(Generic[ResponseT]):
    """A queue with one reader, on the event loop. Iteration ends once it is closed and empty."""

    def __init__(self, *, as_sent: bool) -> None:
        self._as_sent = as_sent
        self._events: deque[ResponseT] = deque()
        self._expected: deque[int] = deque()
        """Ids in the order of their items, as long as order matters."""
        self._waiting: dict[int, Ending[ResponseT]] = {}
        """Endings whose turn has not come."""
        self._sending: deque[Ending[ResponseT]] = deque()
        self._is_closed = False
        self._changed = asyncio.Event()

    def expect(self, item_id: int) -> None:
        """An item was accepted; its ending will come."""
        if self._as_sent:
            self._expected.append(item_id)

    def put_event(self, response: ResponseT) -> None:
        """Write a message before all results."""
        self._events.append(response)
        self._changed.set()

    def put_ending(self, item_id: int, ending: Ending[ResponseT]) -> None:
        """End an item, in its turn."""
        if self._as_sent:
            self._waiting[item_id] = ending
            self._let_next_send()
        else:
            self._sending.append(ending)
        self._changed.set()

    def close(self) -> None:
        """Nothing more will be put."""
        self._is_closed = True
        self._changed.set()

    def drop(self) -> None:
        """Write nothing more, and let every ending release what it holds."""
        self._events.clear()
        endings = [*self._sending, *self._waiting.values()]
        self._sending.clear()
        self._waiting.clear()
        for ending in endings:
            ending.done(False)

    def __aiter__(self) -> Outbox[ResponseT]:
        return self

    async def __anext__(self) -> ResponseT:
        while True:
            response = self.take()
            if response is not None:
                return response
            if self._is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    def take(self) -> ResponseT | None:
        """The next message; None where there is none yet."""
        if self._events:
            return self._events.popleft()
        while self._sending:
            ending = self._sending.popleft()
            response = next(ending.responses, None)
            if response is not None:
                # In order only one result is sent at a time, so it stays the first; otherwise results take turns.
                self._sending.append(ending)
                return response
            ending.done(True)
            if self._as_sent:
                self._let_next_send()
            if self._events:
                return self._events.popleft()
        return None

    def _let_next_send(self) -> None:
        if not self._sending and self._expected and self._expected[0] in self._waiting:
            self._sending.append(self._waiting.pop(self._expected.popleft()))
