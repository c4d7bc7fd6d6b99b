"""Times of what a device does, taken by the device itself; and of the interpreter, by the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

__all__ = ["DeviceClock", "EventClock", "HostClock", "TimedKernel"]


class DeviceClock(Protocol):
    """Marks moments in the order of the work that is queued on the current stream."""

    def mark(self) -> Any:
        """Mark the present end of the queue."""

    def between_ms(self, begin: Any, end: Any) -> float:
        """Wait for both, and return what lies between them."""


class EventClock:
    """CUDA events."""

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def between_ms(self, begin: Any, end: Any) -> float:
        end.synchronize()
        return float(begin.elapsed_time(end))


class HostClock:
    """For what is done when the call returns."""

    def mark(self) -> Any:
        return time.perf_counter()

    def between_ms(self, begin: Any, end: Any) -> float:
        return 1e3 * float(end - begin)


class TimedKernel:
    """Stands in for a kernel and marks the beginning and the end of each launch."""

    def __init__(self, kernel: Any, clock: DeviceClock, launches: list[tuple[Any, Any]]) -> None:
        self.kernel = kernel
        self.clock = clock
        self.launches = launches

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **constants: Any) -> None:
            begin = self.clock.mark()
            self.kernel[grid](*arguments, **constants)
            self.launches.append((begin, self.clock.mark()))

        return launch
