"""What this machine has for the CUDA path, and what it lacks, in words: asked at start-up, before anything loads."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sysconfig
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CudaDeviceFacts", "DeviceProbe", "probe_cuda"]

_NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class CudaDeviceFacts:
    """One device that is visible to this process (`CUDA_VISIBLE_DEVICES`)."""

    index: int
    """The index torch knows it by."""
    uuid: str
    """`GPU-` and the device's UUID, as nvidia-smi prints it."""
    name: str
    memory_bytes: int
    """All memory of the device, free or not."""


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """Whether the CUDA path can be served."""

    available: bool
    devices: tuple[CudaDeviceFacts, ...]
    missing: tuple[str, ...]
    """Each thing that is missing, as a clause an operator understands; empty where available."""


def probe_cuda() -> DeviceProbe:
    """Look for the packages, the devices and the C compiler that the CUDA path needs.

    Asks the driver itself, which makes no context: a server that serves on the CPU alone stays off every GPU. Torch and
    Triton are looked for and not imported.
    """
    missing = [f"{package} is not installed" for package in ("torch", "triton") if not _is_installed(package)]
    devices: tuple[CudaDeviceFacts, ...] = ()
    try:
        devices = tuple(_devices(_load_driver()))
        if not devices:
            missing.append("no CUDA device is visible to this process")
    except OSError as error:
        missing.append(str(error))
    if not missing:
        missing.extend(_missing_build_tools())
    return DeviceProbe(not missing, devices, tuple(missing))


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _load_driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise OSError("no NVIDIA driver is installed (libcuda.so.1 was not found)") from None


def _devices(driver: Any) -> Iterator[CudaDeviceFacts]:
    """Ask the CUDA driver library for its devices.

    Raises:
        OSError: the driver refuses.
    """

    def call(function: Callable[..., int], *arguments: Any) -> None:
        code = function(*arguments)
        if code != 0:
            raise OSError(f"the NVIDIA driver cannot be used (error {code} of the driver)")

    count = ctypes.c_int()
    # 100 is CUDA_ERROR_NO_DEVICE: the driver is well, there just is nothing for this process.
    code = driver.cuInit(0)
    if code == 100:
        return
    if code != 0:
        raise OSError(f"the NVIDIA driver cannot be started (error {code} of the driver)")
    call(driver.cuDeviceGetCount, ctypes.byref(count))
    for index in range(count.value):
        device = ctypes.c_int()
        identifier = (ctypes.c_ubyte * 16)()
        name = ctypes.create_string_buffer(_NAME_BYTES)
        memory_bytes = ctypes.c_size_t()
        call(driver.cuDeviceGet, ctypes.byref(device), index)
        call(driver.cuDeviceGetUuid, ctypes.byref(identifier), device)
        call(driver.cuDeviceGetName, name, _NAME_BYTES, device)
        call(driver.cuDeviceTotalMem_v2, ctypes.byref(memory_bytes), device)
        yield CudaDeviceFacts(
            index, f"GPU-{uuid.UUID(bytes=bytes(identifier))}", name.value.decode(errors="replace"), memory_bytes.value
        )


def _missing_build_tools() -> Iterator[str]:
    """Triton compiles its launcher once, in C, with Python's headers, unless its cache holds it already."""
    if any(_cache_folder().glob("*/cuda_utils*.so")):
        return
    compiler = os.environ.get("CC", "gcc")
    if shutil.which(compiler) is None and ("CC" in os.environ or shutil.which("clang") is None):
        yield "no C compiler is installed (gcc, clang or what CC names) and Triton's cache is empty"
    elif not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        yield "Python's C headers are not installed (Python.h) and Triton's cache is empty"


def _cache_folder() -> Path:
    if folder := os.environ.get("TRITON_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("TRITON_HOME") or Path.home()) / ".triton" / "cache"
