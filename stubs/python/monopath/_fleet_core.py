"""What the sync and the asyncio fleet have in common: a `map` over streams of several clients. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from monopath._errors import MonopathError, StreamClosed, StreamMoved
from monopath._mapping_core import MappingCore
from monopath._messages import InputT
from monopath._paths import PathT
from monopath._resume import Resume

if TYPE_CHECKING:
    from monopath._core import StreamCore
    from monopath._records import Ready, Summary

__all__ = ["FleetCore", "FleetRecord"]

_SETTLE_SECONDS = 0.5
"""How long items wait for the other streams once the first one is open, so that few items are shared out evenly too."""


class FleetRecord:
    """What a fleet tells of its maps."""

    def __init__(self, cores: Sequence[StreamCore[Any, Any]]) -> None:
        """`cores` are those of the fleet's streams. Raises ValueError for none, or ones that do not go together."""
        _check_alike(cores)
        self._ready: Ready | None = None
        self._summary: Summary | None = None

    @property
    def ready(self) -> Ready:
        """The first opening of the latest `map`: the config that holds on every stream. Raises StreamClosed before."""
        if self._ready is None:
            raise StreamClosed("Expected a fleet that has opened a stream, got one that has not; it does so in map")
        return self._ready

    @property
    def summary(self) -> Summary | None:
        """What the streams that came to their good end came to, over every `map`. None before the first one's end."""
        return self._summary

    def _take_ready(self, ready: Ready) -> None:
        self._ready = ready

    def _add_summary(self, summary: Summary | None) -> None:
        if summary is not None:
            self._summary = summary if self._summary is None else self._summary + summary


def _check_alike(cores: Sequence[StreamCore[Any, Any]]) -> None:
    """Raise ValueError for no streams, and for ones that differ in path, element type or order."""
    if not cores:
        raise ValueError("Expected at least one stream, got none")
    first, *others = [(core.adapter.path, core.data_type, core.order) for core in cores]
    for other in others:
        if other != first:
            raise ValueError(
                f"Expected streams of one path, element type and order, got {', '.join(other)} after {', '.join(first)}"
            )


class FleetCore(MappingCore[PathT, InputT]):
    """The state of one `map` whose lanes are opened by itself, each as its own stream says.

    The first that opens says the config that the others have to open to.
    """

    def __init__(
        self,
        cores: Sequence[StreamCore[PathT, InputT]],
        resume: Resume,
        *,
        credit_count: int,
        on_ready: Callable[[Ready], None],
    ) -> None:
        """`on_ready` is told the first opening. The callers' time for the streams begins now."""
        super().__init__(cores, resume, credit_count=credit_count)
        for core in cores:
            core.timeout_seconds()
        self._on_ready = on_ready
        self._leader: StreamCore[PathT, InputT] | None = None
        self._untried = set(range(len(cores)))
        self._start_at = 0.0

    @property
    def leader(self) -> StreamCore[PathT, InputT]:
        """The stream that was opened first."""
        if self._leader is None:
            raise StreamClosed("Expected an open stream, got none so far")
        return self._leader

    def wants_item(self) -> bool:
        """Return whether the next item is to be taken from the source: not before the streams had time to open."""
        return self._leader is not None and not self._seconds_to_start() and super().wants_item()

    def opened(self, lane: int) -> None:
        """Take a stream's good opening. Raises StreamMoved for another config than the first one's."""
        self._untried.discard(lane)
        ready = self._cores[lane].ready
        if self._leader is None:
            self._leader = self._cores[lane]
            self._start_at = time.monotonic() + _SETTLE_SECONDS
            for core in self._cores:
                core.expect(ready)
            self._on_ready(ready)
        elif ready.config_sha256 != self._leader.ready.config_sha256:
            raise StreamMoved(
                f"Expected the config {self._leader.ready.config_sha256.hex()[:12]} on every stream, got "
                f"{ready.config_sha256.hex()[:12]} on stream {lane + 1}"
            )

    def lose(self, lane: int, error: MonopathError) -> None:
        """Take a stream's bad end, and its items back. Raises the error again where no new stream may carry on."""
        self._untried.discard(lane)
        super().lose(lane, error)

    def seconds_to_due(self) -> float | None:
        """Return how long until there is something to do though nothing was told. None where nothing is."""
        times = (super().seconds_to_due(), self._seconds_to_start() or None)
        return min((seconds for seconds in times if seconds is not None), default=None)

    def seconds_to_opening(self, lane: int) -> float | None:
        """Return how long until a lane without a stream is to open one; None where there is nothing to send.

        Each opens one at first, whatever there is to send. Raises StreamClosed where the caller wants no more of it.
        """
        if self._leader is None or lane in self._untried:
            self._cores[lane].check_not_closed()
            return self._backoffs[lane].wait_seconds(time.monotonic())
        return super().seconds_to_opening(lane)

    def _seconds_to_start(self) -> float:
        if self._leader is None or not self._untried:
            return 0.0
        return max(0.0, self._start_at - time.monotonic())
