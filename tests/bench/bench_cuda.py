"""Times the CUDA transform beside a textbook torch pipeline and the CPU: `python -m tests.bench.bench_cuda [rounds]`.

Kernels, both copies and the textbook are timed by the device, with events; all of them take turns. Medians, in
milliseconds of a batch. Without a GPU it says why, and prints the CPU's times of small batches alone.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from monopath_server.processors.types import ElementType
from monopath_server.transforms.cpu.transform import CpuTransform
from monopath_server.transforms.cuda.device import CudaDevice, TransformDevice, is_out_of_memory
from monopath_server.transforms.cuda.probe import probe_cuda
from monopath_server.transforms.cuda.runtime import Kernels
from monopath_server.transforms.cuda.transform import CudaTransform
from tests.bench.cuda_batches import Batch, wanted_batches
from tests.bench.device_clock import DeviceClock, EventClock, TimedKernel
from tests.bench.torch_textbook import TORCH_TYPES, Textbook

__all__ = ["Times", "copy_bandwidth", "cpu_time_ms", "device_times"]

HEADINGS = ("kernels", "copy in", "copy out", "run_batch", "textbook", "CPU, 1 core", "GB/s", "of copy", "/textbook")
BANDWIDTH_BYTES = 1 << 30
BANDWIDTH_ROUNDS = 20
MAX_CPU_COUNT = 8
"""A core takes its time for a large batch, and the same for each image of it."""


@dataclass
class Times:
    """Of one batch, in milliseconds, round by round."""

    kernels: list[float] = field(default_factory=list)
    copy_in: list[float] = field(default_factory=list)
    """Pixels, from pinned memory."""
    copy_out: list[float] = field(default_factory=list)
    """Rows, to pinned memory."""
    run_batch: list[float] = field(default_factory=list)
    """From the host's memory to the host's memory, by the host's clock."""
    textbook: list[float] = field(default_factory=list)
    """Pixels on the device to rows on the device; empty for an element type that torch code would not make."""


def device_times(batch: Batch, device: TransformDevice, clock: DeviceClock, rounds: int) -> Times:
    """Time a batch on a device; one round before them does not count."""
    transform = CudaTransform(batch.config, batch.element_type, device)
    host_in, host_out = device.allocate_host(batch.upload_bytes), device.allocate_host(batch.feature_bytes)
    stream = device.new_stream()
    with stream.active():
        device_in = device.allocate_device(batch.upload_bytes)
        device_out = device.allocate_device(batch.feature_bytes)
    times = Times()

    def on_stream(action: Callable[[], object]) -> float:
        with stream.active():
            begin = clock.mark()
            action()
            return clock.between_ms(begin, clock.mark())

    def kernels() -> tuple[float, float]:
        launches: list[tuple[object, object]] = []
        plain = device.kernels
        device.kernels = Kernels(
            TimedKernel(plain.filter_first_axis, clock, launches),
            TimedKernel(plain.write_patches, clock, launches),
            plain.is_interpreted,
        )
        started = time.perf_counter()
        try:
            faults = transform.run_batch(batch.items)
        finally:
            device.kernels = plain
        spent_ms = 1e3 * (time.perf_counter() - started)
        if any(faults):
            raise RuntimeError(f"Expected features of {batch.name}, got {next(filter(None, faults))}")
        return sum(clock.between_ms(begin, end) for begin, end in launches), spent_ms

    actions: list[Callable[[], None]] = [
        lambda: _add(times, "kernels", "run_batch", *kernels()),
        lambda: times.copy_in.append(on_stream(lambda: device_in.copy_(host_in, non_blocking=True))),
        lambda: times.copy_out.append(on_stream(lambda: host_out.copy_(device_out, non_blocking=True))),
    ]
    if batch.element_type in TORCH_TYPES:
        textbook = Textbook(batch.config, batch.element_type, device.torch_device)
        groups = batch.on_device(device.torch_device)
        actions.append(lambda: times.textbook.append(on_stream(lambda: textbook.batch(groups))))
    for number in range(rounds + 1):
        for shift in range(len(actions)):
            actions[(number + shift) % len(actions)]()
    for samples in (times.kernels, times.copy_in, times.copy_out, times.run_batch, times.textbook):
        del samples[:1]
    return times


def _add(times: Times, first: str, second: str, first_ms: float, second_ms: float) -> None:
    getattr(times, first).append(first_ms)
    getattr(times, second).append(second_ms)


def copy_bandwidth(device: TransformDevice, clock: DeviceClock, size_bytes: int = BANDWIDTH_BYTES) -> float:
    """Bytes that a copy from the device to the device reads and writes, in units of 10^9 a second."""
    stream = device.new_stream()
    spent = []
    with stream.active():
        source, target = device.allocate_device(size_bytes), device.allocate_device(size_bytes)
        for _ in range(BANDWIDTH_ROUNDS):
            begin = clock.mark()
            target.copy_(source)
            spent.append(clock.between_ms(begin, clock.mark()))
    return 2 * size_bytes / statistics.median(spent) / 1e6


def cpu_time_ms(batch: Batch, rounds: int) -> float:
    """Time of the CPU transform on one core."""
    transform = CpuTransform(batch.config, batch.element_type)
    spent = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        for prepared, plan, memory in batch.items:
            transform.rows_into(prepared, plan, memory)
        spent.append(1e3 * (time.perf_counter() - started))
    return statistics.median(spent[1:])


def line(batch: Batch, times: Times | None, cpu_ms: float | None, bandwidth: float | None) -> str:
    """One line of the table."""
    values: list[float | None] = [None] * len(HEADINGS)
    if times is not None:
        medians = [
            statistics.median(samples) if samples else None
            for samples in (times.kernels, times.copy_in, times.copy_out, times.run_batch, times.textbook)
        ]
        values[:5] = medians
        kernels_ms, textbook_ms = medians[0], medians[4]
        if kernels_ms:
            moved = batch.traffic_bytes / kernels_ms / 1e6
            values[6] = moved
            values[7] = moved / bandwidth if bandwidth else None
            values[8] = kernels_ms / textbook_ms if textbook_ms else None
    values[5] = cpu_ms
    cells = "".join(f"{'-' if value is None else format(value, '.3f'):>12}" for value in values)
    return f"{batch.name:24} {batch.element_type.value:9}{cells}\n"


def _times_if_there_is_room(batch: Batch, device: TransformDevice, clock: DeviceClock, rounds: int) -> Times | None:
    try:
        return device_times(batch, device, clock, rounds)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        device.release_unused()
        return None


def main(rounds: int) -> int:
    """Print the table."""
    probe = probe_cuda()
    names = ", ".join(device.name for device in probe.devices)
    sys.stdout.write(f"GPU: {names if probe.available else '; '.join(probe.missing)}\n")
    device = CudaDevice(0) if probe.available else None
    clock = EventClock()
    bandwidth = None if device is None else copy_bandwidth(device, clock)
    if bandwidth is not None:
        sys.stdout.write(f"copy on the device: {bandwidth:.0f} GB/s read and written; torch {torch.__version__}\n")
    sys.stdout.write(f"{'batch':24} {'type':9}" + "".join(f"{heading:>12}" for heading in HEADINGS) + "\n")
    for element_type in (ElementType.BFLOAT16, ElementType.FLOAT32, ElementType.UINT8):
        for batch in wanted_batches(element_type, max_count=MAX_CPU_COUNT if device is None else 128):
            times = None if device is None else _times_if_there_is_room(batch, device, clock, rounds)
            cpu_ms = cpu_time_ms(batch, min(rounds, 3)) if len(batch.items) <= MAX_CPU_COUNT else None
            sys.stdout.write(line(batch, times, cpu_ms, bandwidth))
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
