"""Times the CPU and the CUDA transform on images of real sizes: `python -m tests.bench.bench_cuda [repetitions]`.

Without a GPU it says why, and prints the CPU's times alone. Times are minima, in milliseconds, of pixels that are
decoded already.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.types import ElementType, Size
from monopath_server.transforms.cpu.transform import CpuTransform
from monopath_server.transforms.cuda.probe import probe_cuda

SHAPES = [
    ("kimi-k3", 256, 256, 1),
    ("kimi-k3", 256, 256, 32),
    ("kimi-k3", 1024, 1024, 1),
    ("kimi-k3", 2048, 2048, 1),
    ("kimi-k2.5", 2048, 2048, 1),
    ("kimi-k2.5", 1290, 2796, 1),
    ("kimi-k3", 1920, 1080, 1),
    ("kimi-k3", 1920, 1080, 8),
    ("kimi-k3", 4000, 3000, 1),
    ("kimi-k2.5", 4000, 3000, 1),
]
HEADINGS = ("kernels", "copy in", "GPU, all", "CPU, one core")


@dataclass(frozen=True)
class Batch:
    """Equal images with memory for their rows."""

    config: KimiConfig
    items: list[Any]
    upload_bytes: int


def make_batch(preset: str, size: Size, count: int, element_type: ElementType) -> Batch:
    """Noise, which is as fast as any other picture."""
    config = PRESETS[preset]
    plan = plan_image(config, size)
    pixels = np.random.default_rng(0).integers(0, 256, (size.height_px, size.width_px, 4), np.uint8)
    prepared = PreparedPixels(pixels, False, False, "RGB", ResizeRoute.KERNEL)
    rows = [np.empty(plan.feature_bytes(element_type), np.uint8) for _ in range(count)]
    return Batch(config, [(prepared, plan, memory) for memory in rows], pixels.nbytes * count)


def shortest_ms(action: Callable[[], object], repetitions: int) -> float:
    """Time of the fastest of some runs, after one that does not count."""
    action()
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)


class TimedKernel:
    """Stands in for a kernel and lets the device take the time of each launch."""

    def __init__(self, kernel: Any, launches: list[Any]) -> None:
        self.kernel = kernel
        self.launches = launches

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        import torch

        def launch(*arguments: Any, **constants: Any) -> None:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            self.kernel[grid](*arguments, **constants)
            end.record()
            self.launches.append((begin, end))

        return launch


def cuda_times_ms(batch: Batch, element_type: ElementType, repetitions: int) -> tuple[float, float, float]:
    """Time of the kernels alone, of the copy in alone, and of `run_batch` from host memory to host memory."""
    import torch

    from monopath_server.transforms.cuda.device import CudaDevice
    from monopath_server.transforms.cuda.runtime import Kernels
    from monopath_server.transforms.cuda.transform import CudaTransform

    device = CudaDevice(0)
    transform = CudaTransform(batch.config, element_type, device)
    end_to_end = shortest_ms(lambda: transform.run_batch(batch.items), repetitions)

    launches: list[Any] = []
    plain = device.kernels
    device.kernels = Kernels(
        TimedKernel(plain.filter_first_axis, launches), TimedKernel(plain.write_patches, launches), False
    )
    kernel_times = []
    for _ in range(repetitions):
        launches.clear()
        transform.run_batch(batch.items)
        torch.cuda.synchronize()
        kernel_times.append(sum(begin.elapsed_time(end) for begin, end in launches))
    device.kernels = plain

    host, target = device.allocate_host(batch.upload_bytes), device.allocate_device(batch.upload_bytes)

    def copy_in() -> None:
        target.copy_(host, non_blocking=True)
        torch.cuda.synchronize()

    return min(kernel_times), shortest_ms(copy_in, repetitions), end_to_end


def cpu_time_ms(batch: Batch, element_type: ElementType, repetitions: int) -> float:
    """Time of the CPU transform on one core."""
    transform = CpuTransform(batch.config, element_type)

    def run() -> None:
        for prepared, plan, memory in batch.items:
            transform.rows_into(prepared, plan, memory)

    return shortest_ms(run, repetitions)


def main(repetitions: int) -> int:
    """Print the table."""
    probe = probe_cuda()
    devices = ", ".join(device.name for device in probe.devices)
    sys.stdout.write(f"GPU: {devices if probe.available else '; '.join(probe.missing)}\n")
    sys.stdout.write(f"{'batch':34} {'type':9}" + "".join(f"{heading:>15}" for heading in HEADINGS) + "\n")
    for preset, width_px, height_px, count in SHAPES:
        for element_type in (ElementType.BFLOAT16, ElementType.FLOAT32):
            batch = make_batch(preset, Size(width_px, height_px), count, element_type)
            times: list[float | None] = [None, None, None]
            if probe.available:
                times = list(cuda_times_ms(batch, element_type, repetitions))
            times.append(cpu_time_ms(batch, element_type, repetitions))
            cells = "".join(f"{'-' if time is None else format(time, '.3f'):>15}" for time in times)
            name = f"{preset} {count} x {width_px}x{height_px}"
            sys.stdout.write(f"{name:34} {element_type.value:9}{cells}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
