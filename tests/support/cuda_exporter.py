"""A process that makes features on a real GPU and exports them, told what to do line by line: `python -m`.

Every line is a JSON object, and so is every answer.
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import json
import sys
from typing import Any

from monopath.cuda_memory import LibCuda
from monopath_server.delivery.device_memory import DeviceMemoryPool
from monopath_server.delivery.parts import DevicePart
from monopath_server.engine.device_rows import DeviceRows
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType, Size
from monopath_server.transforms.cuda.device import CudaDevice
from monopath_server.transforms.cuda.transform import CudaTransform
from tests.numerics.cuda_cases import ImageCase, batch_items

__all__ = ["CONFIG", "case_of", "main"]

CONFIG = dataclasses.replace(PRESETS["kimi-k3"], in_patch_limit=1024)
LIMIT_BYTES = 64 * 1024 * 1024


def case_of(seed: int) -> ImageCase:
    """An image for a number, with or without alpha."""
    return ImageCase(Size(400 + seed, 300), "noise", has_alpha=bool(seed % 2), already_resized=False, seed=seed)


def part_json(part: DevicePart) -> dict[str, Any]:
    """A part as JSON has it."""
    return {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in dataclasses.asdict(part).items()
    }


class Exporter:
    """A device and its memory for others."""

    def __init__(self) -> None:
        self.index = len(LibCuda().device_uuids()) - 1  # the last one, so that device 0 is not everybody's by default
        self.device = CudaDevice(self.index)
        driver = LibCuda()
        self.pool = DeviceMemoryPool(driver, self.index, driver.device_uuids()[self.index], LIMIT_BYTES)
        self.held: dict[int, Any] = {}

    def make(self, seeds: list[int], element_type: str) -> dict[str, Any]:
        """Make features of images in one batch."""
        transform = CudaTransform(CONFIG, ElementType(element_type), self.device)
        items, _ = batch_items([case_of(seed) for seed in seeds], CONFIG, transform.element_type)
        parts = []
        batch: list[tuple[Any, Any, DeviceRows]] = []
        for seed, (prepared, plan, _) in zip(seeds, items, strict=True):
            rows = self.pool.take(plan.feature_bytes(transform.element_type))
            assert rows is not None
            self.held[seed] = rows
            batch.append((prepared, plan, rows))
            parts.append({**part_json(rows.part), "shape": plan.shape})
        faults = transform.run_batch(batch)
        return {"parts": parts, "faults": [str(fault) for fault in faults if fault is not None]}

    def release(self, seed: int) -> dict[str, Any]:
        """The client is done with features."""
        self.held.pop(seed).release()
        return {"idle_bytes": self.pool.idle_bytes}

    def retire(self, seed: int) -> dict[str, Any]:
        """A lease ended without the client's doing."""
        rows = self.held.pop(seed)
        rows.retire()
        rows.release()
        return {"retired_bytes": self.pool.retired_bytes}

    def probe(self) -> dict[str, Any]:
        """What `ready` would offer."""
        return {"part": part_json(self.pool.probe.part), "nonce": base64.b64encode(self.pool.probe.nonce).decode()}

    def contexts(self) -> dict[str, Any]:
        """Devices on which this process has a context, as the driver knows it."""
        library = ctypes.CDLL("libcuda.so.1")
        active = []
        for index in range(self.index + 1):
            device, flags, is_active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
            assert library.cuDeviceGet(ctypes.byref(device), index) == 0
            assert library.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(is_active)) == 0
            if is_active.value:
                active.append(index)
        return {"active": active, "chosen": self.index}


def main() -> None:
    """Answer until the input ends."""
    exporter = Exporter()
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(exporter, command.pop("do"))(**command)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
