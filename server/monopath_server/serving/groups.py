"""Responses that are there at the same time, written as one message where the client's config allows it.

A message costs each side several turns of threads and event loop, whatever its size: a repeated image is answered by
three messages that are all there at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from google.protobuf.message import Message

from monopath_server.serving.outbox import Outbox

__all__ = ["MAX_GROUP_BYTES", "Grouped", "serialized"]

ResponseT = TypeVar("ResponseT")

MAX_GROUP_BYTES = 512 * 1024
"""Larger messages come alone: their bytes would be copied once more, which takes longer than a message of their own."""


class Grouped(Generic[ResponseT]):
    """Iterates over what an outbox has to write, serialised, in its order. For one reader, on the event loop."""

    def __init__(self, outbox: Outbox[ResponseT | bytes], write_group: Callable[[Sequence[bytes]], bytes]) -> None:
        """`write_group` makes one serialised response of several."""
        self._outbox = outbox
        self._write_group = write_group
        self._next: bytes | None = None
        """What did not fit into the group before it."""

    def __aiter__(self) -> Grouped[ResponseT]:
        return self

    async def __anext__(self) -> bytes:
        response, self._next = self._next, None
        if response is None:
            response = serialized(await anext(self._outbox))
            # A plan is put before its item's features are looked up: what is known already follows in this turn.
            await asyncio.sleep(0)
        group = [response]
        group_bytes = len(response)
        while group_bytes < MAX_GROUP_BYTES and (more := self._outbox.take()) is not None:
            response = serialized(more)
            group_bytes += len(response)
            if group_bytes > MAX_GROUP_BYTES:
                self._next = response
                break
            group.append(response)
        return group[0] if len(group) == 1 else self._write_group(group)


def serialized(response: object) -> bytes:
    """A response as gRPC sends it: a message, or bytes that are one already."""
    if isinstance(response, bytes):
        return response
    if not isinstance(response, Message):
        raise TypeError(f"Expected a message or its bytes, got {type(response).__name__}")
    return response.SerializeToString()
