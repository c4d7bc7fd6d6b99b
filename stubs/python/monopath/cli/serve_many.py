"""`monopath serve` with several processes: what each is started with, and how they are told of as one target."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import typer

from monopath.cli.configuration.build import to_arguments
from monopath.cli.configuration.resolve import CONFIG_VARIABLE, Resolution, Source
from monopath.cli.configuration.table import SETTINGS
from monopath.cli.faults import UserFault
from monopath.cli.serve_ready import ReadyAnnouncer
from monopath_server.supervision.addresses import target_of
from monopath_server.supervision.devices import DEVICES_VARIABLE, visible_devices
from monopath_server.supervision.replica import ReplicaPlan
from monopath_server.supervision.supervisor import Running, Supervisor
from monopath_server.transforms.cuda.probe import probe_cuda

__all__ = ["plan_processes", "run_processes", "with_shared_processors"]

_HARD_EXIT_SECONDS = 20.0
"""A server ends by itself 10 seconds after its grace; with some time for Python to end."""
_OF_THE_SUPERVISOR = ("processes", "devices", "ready_file")


def plan_processes(resolution: Resolution, environment: Mapping[str, str]) -> list[ReplicaPlan]:
    """Return how to start each process; empty where one is enough, and that is this one.

    Raises:
        UserFault: the settings do not go together, or there are no such devices.
    """
    count: int = resolution["processes"]
    visible: Sequence[str | None] = [None] * count
    if names := resolution["devices"]:
        visible = _devices(resolution, names, environment)
    elif count == 1:
        return []
    plans = [_plan(resolution, index, len(visible), device, environment) for index, device in enumerate(visible)]
    _check_target(plans)
    _check_apart(resolution, len(plans))
    return plans


def with_shared_processors(resolution: Resolution, count: int) -> Resolution:
    """Return the same with processors divided among `count` processes, where nothing else was said."""
    workers = resolution.found["workers"]
    if workers.source is not Source.DEFAULT or count == 1:
        return resolution
    share = replace(workers, value=max(1, len(os.sched_getaffinity(0)) // count))
    return replace(resolution, found={**resolution.found, "workers": share})


def run_processes(resolution: Resolution, plans: Sequence[ReplicaPlan], announcer: ReadyAnnouncer) -> None:
    """Run all until a signal. Raises typer.Exit with the exit code where it is not 0."""

    def on_ready(running: Sequence[Running]) -> None:
        processes = [{"address": one.address, "pid": one.pid} for one in running]
        announcer.announce(target_of([one.address for one in running]), {"processes": processes})

    async def run() -> int:
        stop_seconds = resolution["lame_duck"] + resolution["grace"] + _HARD_EXIT_SECONDS
        return await Supervisor(plans, on_ready, stop_seconds=stop_seconds).run_until_signalled()

    if code := asyncio.run(run()):
        raise typer.Exit(code)


def _devices(resolution: Resolution, names: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    if resolution["processes"] != 1:
        raise UserFault("Expected --processes or --devices, got both: --devices has a process for each device")
    if resolution["cuda"] not in ("auto", "required"):
        raise UserFault(f"--devices: expected --cuda auto or required, got {resolution['cuda']}")
    try:
        return visible_devices(names, probe_cuda(), environment)
    except ValueError as error:
        raise UserFault(f"--devices: {error}") from None


def _plan(
    resolution: Resolution, index: int, count: int, device: str | None, environment: Mapping[str, str]
) -> ReplicaPlan:
    own: dict[str, Any] = dict.fromkeys(_OF_THE_SUPERVISOR)
    own["workers"] = with_shared_processors(resolution, count)["workers"]
    for name, found in resolution.found.items():
        if found.value is not None and name not in own:
            try:
                value = found.setting.kind.for_process(found.value, index)
            except ValueError as error:
                raise UserFault(f"{found.setting.flag}: {error}") from None
            if value != found.value:
                own[name] = value

    def command(address: str) -> list[str]:
        arguments = to_arguments(resolution.found.values(), {**own, "address": address})
        # -P: the current folder is none of the places that packages come from, just as for `monopath` itself.
        return [sys.executable, "-P", "-m", "monopath.cli.main", "serve", *arguments]

    # Everything is said in the arguments, and it stays so when a process is started again.
    ours = {CONFIG_VARIABLE, *(setting.variable for setting in SETTINGS)}
    kept = {name: text for name, text in environment.items() if name not in ours}
    address: str = own.get("address", resolution["address"])
    return ReplicaPlan(address, command, kept if device is None else {**kept, DEVICES_VARIABLE: device})


def _check_apart(resolution: Resolution, count: int) -> None:
    """Two settings whose ports are counted up may meet."""
    found = [resolution.found[name] for name in ("address", "metrics_address")]
    ports = [one.setting.kind.for_process(one.value, index) for one in found if one.value for index in range(count)]
    for port in ports:
        if ports.count(port) > 1 and not port.endswith(":0"):
            raise UserFault(
                f"--metrics-address: expected ports apart from the {count} of --address, got {port} for both"
            )


def _check_target(plans: Sequence[ReplicaPlan]) -> None:
    try:
        target_of([plan.address for plan in plans])
    except ValueError as error:
        raise UserFault(f"--address: {error}") from None
