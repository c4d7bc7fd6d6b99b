"""What asks encoders: one address after the other until one answers, so that no request dies with a process."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from examples.encoder.faults import PATIENCE_SECONDS, persist
from examples.encoder.messages import IMAGES, Kind, Reply, Request
from examples.encoder.sources import EncodedImage, Source, SourceT_co
from examples.encoder.wire import Peer

__all__ = ["Encoders"]


class Encoders:
    """Ranks or gateways, any of which takes a whole request. Use it in an `async with` statement."""

    def __init__(self, addresses: Sequence[str], *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """`addresses` are gRPC names. A request is sent again, to the next one, for up to `patience_seconds`."""
        self._peers = [Peer(address) for address in addresses]
        self._turns = itertools.cycle(self._peers)
        self._patience_seconds = patience_seconds
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        for peer in self._peers:
            await self._stack.enter_async_context(peer)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def encode(self, kind: Kind[SourceT_co], request: Request[Source[object]]) -> Reply:
        """Return one outcome for each image. Raises Unavailable where nobody answers in time, else as `Peer.encode`."""
        return await persist(lambda: next(self._turns).encode(kind, request), patience_seconds=self._patience_seconds)

    async def encode_images(self, images: Sequence[bytes]) -> Reply:
        """Return one outcome for each image file. Raises as `encode` does."""
        return await self.encode(IMAGES, Request([EncodedImage(data) for data in images]))
