"""What an image in flight takes of a server: the peak of a fresh one that has sixteen, over what it had before."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from monopath import MonopathError
from monopath_server.bench.drives import Served
from monopath_server.bench.pictures import picture
from monopath_server.bench.pipeline import Pipeline
from monopath_server.bench.processes import (
    forget_peak,
    peak_resident_bytes,
    resident_bytes,
    server_process,
    wait_until_quiet,
)
from monopath_server.bench.progress import Meter
from monopath_server.bench.scope import Scope
from monopath_server.bench.sheet import Reading, Sheet

__all__ = ["planned_memory_seconds", "run_memory"]

_IN_FLIGHT = 16
_REPEATED = 3
_SERVER_SECONDS = 5.0
_QUIET_SECONDS = 2.0
_TRANSPORTS: Sequence[Literal["inline", "shared_memory"]] = ("inline", "shared_memory")


def planned_memory_seconds(_scope: Scope) -> float:
    """How long the section is planned to take."""
    return _SERVER_SECONDS * len(_TRANSPORTS)


def run_memory(scope: Scope, sheet: Sheet, meter: Meter, folder: Path) -> None:
    """Measure the largest size on each transport.

    Raises RuntimeError where a server does not start, MonopathError where one is lost.
    """
    image = picture(max(scope.sizes, key=lambda size: size.width_px * size.height_px))
    smallest = picture(min(scope.sizes, key=lambda size: size.width_px * size.height_px))
    feature_bytes = Pipeline(scope.served_preset, scope.element_type).probe(image.data).feature_bytes
    for transport in _TRANSPORTS:
        meter.begin(f"memory, {transport}", _SERVER_SECONDS)
        with server_process(f"unix:{folder / transport}") as server:
            try:
                drive = Served(
                    server.address,
                    scope.served_preset,
                    scope.data_type,
                    transport,
                    1,
                    items_in_flight=_IN_FLIGHT,
                )
            except MonopathError as error:
                sheet.skip(f"memory.{transport}", str(error))
                continue
            with contextlib.closing(drive):
                drive.run([smallest.data] * 2)
                wait_until_quiet(server.pid, _QUIET_SECONDS)
                before_bytes = resident_bytes(server.pid)
                try:
                    forget_peak(server.pid)
                except OSError as error:
                    sheet.skip(f"memory.{transport}", f"the kernel keeps no new peak ({error.strerror})")
                    continue
                drive.run([image.data] * (_IN_FLIGHT * _REPEATED))
                grown_bytes = peak_resident_bytes(server.pid) - before_bytes
        name = f"memory.{transport}"
        sheet.record(Reading(f"{name}.per_image_in_flight.{image.name}", "bytes", grown_bytes / _IN_FLIGHT))
        sheet.record(Reading(f"{name}.features_of_one.{image.name}", "bytes", float(feature_bytes)))
        sheet.record(Reading(f"{name}.idle", "bytes", float(before_bytes)))
