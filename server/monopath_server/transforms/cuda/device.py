"""Where the kernels run: a CUDA device, or the CPU under Triton's interpreter. All allocation goes through here."""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from monopath_server.transforms.cuda.runtime import Kernels, load_kernels

if TYPE_CHECKING:
    from monopath_server.transforms.cuda.lane_pool import LanePool

__all__ = ["CudaDevice", "InterpreterDevice", "Stream", "TransformDevice", "is_out_of_memory"]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the device, or the driver on its behalf, has no memory left.

    Pinned memory, and modules that Triton loads, fail with a plain RuntimeError.
    """
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "out of memory" in str(error).lower()


class Stream(abc.ABC):
    """An ordered queue of copies and kernels on one device."""

    @abc.abstractmethod
    def active(self) -> contextlib.AbstractContextManager[None]:
        """Enter a block in which torch and Triton allocate and launch on this stream and its device only."""

    @property
    @abc.abstractmethod
    def handle(self) -> int:
        """The driver's handle of the stream; 0 where there is no driver."""

    @abc.abstractmethod
    def mark(self) -> None:
        """Mark the end of the work queued so far."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Block until everything before the last mark is done, without the GIL."""


class TransformDevice(abc.ABC):
    """A device that can run the kernels."""

    kernels: Kernels
    torch_device: torch.device
    tile_scale: int = 1
    """Factor for the sides of the kernels' tiles."""

    def __init__(self) -> None:
        """Subclasses set the kernels and the torch device."""
        self.lock = threading.Lock()
        """Held by who uses the device."""
        self.lane_pools: dict[int, LanePool] = {}
        """Filled by `lane_pool.lane_pool` alone."""
        self.reserves: list[Callable[[], None]] = []
        """What gives memory of the device back that others hold unused; called when torch finds none."""

    @abc.abstractmethod
    def new_stream(self) -> Stream:
        """Make a stream of the device."""

    @abc.abstractmethod
    def allocate_host(self, size_bytes: int) -> torch.Tensor:
        """Return a uint8 tensor [size_bytes] of host memory from which the device copies: pinned, where that exists."""

    def allocate_device(self, size_bytes: int) -> torch.Tensor:
        """Return a uint8 tensor [size_bytes] on the device, from the stream that is active.

        Raises:
            torch.OutOfMemoryError: there is no such block.
        """
        return torch.empty(size_bytes, dtype=torch.uint8, device=self.torch_device)

    def release_unused(self) -> None:
        """Give memory that torch and others hold in reserve back to the device."""
        for release in self.reserves:
            release()


class _ImmediateStream(Stream):
    """The interpreter does everything at once."""

    def active(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    @property
    def handle(self) -> int:
        return 0

    def mark(self) -> None:
        return

    def wait(self) -> None:
        return


class InterpreterDevice(TransformDevice):
    """The kernels under Triton's interpreter, on the CPU: the same bytes, thousands of times slower."""

    # A program costs the interpreter tens of milliseconds, whatever its size.
    tile_scale = 4
    _interpreter_lock = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        # The interpreter patches Triton for the time of a launch: one in a process, whatever the number of devices.
        self.lock = self._interpreter_lock
        self.kernels = load_kernels(interpreted=True)
        self.torch_device = torch.device("cpu")

    def new_stream(self) -> Stream:
        return _ImmediateStream()

    def allocate_host(self, size_bytes: int) -> torch.Tensor:
        return torch.empty(size_bytes, dtype=torch.uint8)


class _CudaStream(Stream):
    def __init__(self, torch_device: torch.device) -> None:
        self._torch_device = torch_device
        self._stream = torch.cuda.Stream(torch_device)  # type: ignore[no-untyped-call]
        # A blocking event sleeps in the driver; the default one would keep a core busy.
        self._event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        # For good, and not only for the block: leaving the stream makes the thread's device before it the current one
        # again, which would create a context on device 0 where a thread has never chosen any.
        torch.cuda.set_device(self._torch_device)
        with torch.cuda.stream(self._stream):
            yield

    @property
    def handle(self) -> int:
        return int(self._stream.cuda_stream)

    def mark(self) -> None:
        self._event.record(self._stream)

    def wait(self) -> None:
        self._event.synchronize()


class CudaDevice(TransformDevice):
    """One CUDA device. Making it creates the process's context there, and on no other device.

    Every thread that uses it has it as torch's current device from then on.
    """

    def __init__(self, index: int) -> None:
        """Take the device of this index among those that are visible to the process.

        Raises:
            RuntimeError: CUDA cannot be used, or the process's Triton interprets.
        """
        super().__init__()
        self.kernels = load_kernels(interpreted=False)
        self.torch_device = torch.device("cuda", index)
        torch.cuda.set_device(self.torch_device)
        torch.cuda.synchronize()

    def new_stream(self) -> Stream:
        torch.cuda.set_device(self.torch_device)
        return _CudaStream(self.torch_device)

    def allocate_host(self, size_bytes: int) -> torch.Tensor:
        # Pinning takes the current device's context, which must be ours.
        torch.cuda.set_device(self.torch_device)
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)

    def release_unused(self) -> None:
        super().release_unused()
        torch.cuda.set_device(self.torch_device)
        torch.cuda.empty_cache()
