"""What the figures were measured on, as far as it can change them."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from PIL import features

from monopath_server import __version__
from monopath_server.diagnosis.processor import PROCESSOR_FLAGS, processor_model

__all__ = ["Bystanders", "machine_facts"]

_PACKAGES = ("pillow", "numpy", "numba", "llvmlite", "grpcio", "protobuf", "torch", "torchvision", "transformers")


def machine_facts() -> dict[str, object]:
    """Return the processor, the system, versions, and the load as it is now, before anything is measured."""
    model, flags = processor_model()
    load = os.getloadavg()
    return {
        "processor": model,
        "processor_flags": [flag for flag in PROCESSOR_FLAGS if flag in flags],
        "core_count": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "monopath": __version__,
        "libjpeg_turbo": features.version_feature("libjpeg_turbo"),
        "versions": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "load_average_at_start": [round(value, 2) for value in load],
    }


class Bystanders:
    """How much of the processors others take, from now on: what was measured meanwhile is worth less for it."""

    def __init__(self) -> None:
        self._began = _spent_seconds()

    def shares(self) -> dict[str, float]:
        """Return the parts of all cores' time, 0 to 1, of other processes and of other machines on the same host.

        Processor time of this process's children counts as its own when they have ended. Empty where the system does
        not tell.
        """
        if self._began is None or (now := _spent_seconds()) is None:
            return {}
        all_seconds, busy_seconds, stolen_seconds, own_seconds = (
            after - before for after, before in zip(now, self._began, strict=True)
        )
        all_seconds = max(all_seconds, 1e-9)
        return {
            "others_share": round(max(0.0, busy_seconds - own_seconds) / all_seconds, 3),
            "stolen_share": round(stolen_seconds / all_seconds, 3),
        }


def _spent_seconds() -> tuple[float, float, float, float] | None:
    """Processor time since the start: of everything, idleness included; of all processes; stolen; our own."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen = map(int, fields)
    except (OSError, ValueError):
        return None
    busy = user + nice + system + interrupts + soft_interrupts
    ticks = os.sysconf("SC_CLK_TCK")
    own = sum(os.times()[:4])
    return (busy + idle + waiting + stolen) / ticks, busy / ticks, stolen / ticks, own


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
