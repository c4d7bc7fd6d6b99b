"""The GPUs, their driver, and what Triton needs."""

from __future__ import annotations

import ctypes
from importlib import metadata
from pathlib import Path

from monopath_server.diagnosis.finding import Finding, Findings, Level, size_text
from monopath_server.settings import DeviceMode, Settings
from monopath_server.transforms.cuda.probe import DeviceProbe, probe_cuda

__all__ = ["gpu_findings"]

_NEEDS = (
    "DEFERRED_CUDA needs pip install 'monopath[server,cuda]', an NVIDIA driver, a GPU that this process sees (Docker: "
    "--gpus all) and a C compiler with Python's headers (apt install gcc python3-dev)"
)
_VERSION_BYTES = 96


def gpu_findings(settings: Settings, root: Path = Path("/")) -> Findings:
    """Say what the path DEFERRED_CUDA would have."""
    match settings.cuda:
        case DeviceMode.OFF:
            yield Finding("gpu", Level.OK, "switched off (--cuda off): DEFERRED_CUDA is refused")
        case DeviceMode.INTERPRETER:
            yield Finding("gpu", Level.WARNING, "Triton's interpreter", "--cuda auto: this is for tests, and very slow")
        case DeviceMode.REQUIRED if not (required := probe_cuda()).available:
            yield Finding("gpu", Level.PROBLEM, f"required, and missing: {'; '.join(required.missing)}", _NEEDS)
        case DeviceMode.AUTO | DeviceMode.REQUIRED:
            yield from _probe_findings(probe_cuda(), has_hardware=any((root / "dev").glob("nvidia[0-9]*")))


def _probe_findings(probe: DeviceProbe, *, has_hardware: bool) -> Findings:
    if not probe.devices and not has_hardware:
        yield Finding("gpu", Level.OK, "none: DEFERRED_CUDA is refused, the other paths are served")
        return
    for device in probe.devices:
        found = f"cuda:{device.index} {device.name}, {size_text(device.memory_bytes)}, {device.uuid}"
        yield Finding("gpu", Level.OK, found)
    if (version := _driver_version()) is not None:
        yield Finding("gpu driver", Level.OK, version)
    if probe.missing:
        yield Finding("cuda", Level.WARNING, "; ".join(probe.missing), _NEEDS)
        return
    torch, triton = metadata.version("torch"), metadata.version("triton")
    if torch.endswith("+cpu"):
        yield Finding("cuda", Level.WARNING, f"torch {torch}, a build without CUDA", "A build of torch with CUDA")
    else:
        yield Finding("cuda", Level.OK, f"torch {torch}, triton {triton}, and what Triton compiles with")


def _driver_version() -> str | None:
    """Ask the driver's management library, which makes no context."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    version = ctypes.create_string_buffer(_VERSION_BYTES)
    if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(version, _VERSION_BYTES):
        return None
    library.nvmlShutdown()
    return version.value.decode(errors="replace")
