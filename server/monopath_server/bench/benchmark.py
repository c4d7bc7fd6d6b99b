"""A whole run: the sections of a scope, one after the other, into one sheet."""

from __future__ import annotations

from monopath_server.bench.cpu import planned_cpu_seconds, run_cpu
from monopath_server.bench.latency import planned_latency_seconds, run_latency
from monopath_server.bench.memory import planned_memory_seconds, run_memory
from monopath_server.bench.processes import Servers, socket_folder
from monopath_server.bench.progress import Meter
from monopath_server.bench.scope import Scope, Section
from monopath_server.bench.served import planned_served_seconds, run_served
from monopath_server.bench.sheet import Sheet

__all__ = ["run_benchmark"]

_PLANNED = {
    Section.CPU: planned_cpu_seconds,
    Section.SERVED: planned_served_seconds,
    Section.LATENCY: planned_latency_seconds,
    Section.MEMORY: planned_memory_seconds,
}


def run_benchmark(scope: Scope, sheet: Sheet, meter: Meter) -> None:
    """Measure. What is in the sheet stays there, however this ends; no process is left behind.

    Raises:
        RuntimeError: the bytes are wrong, or a server cannot be started.
        MonopathError: a server was lost.
        KeyboardInterrupt: on Ctrl-C, when everything that was started has ended.
    """
    meter.plan(sum(_PLANNED[section](scope) for section in scope.sections))
    with socket_folder() as folder, Servers(folder) as servers:
        for section in scope.sections:
            _run(section, scope, sheet, meter, servers)


def _run(section: Section, scope: Scope, sheet: Sheet, meter: Meter, servers: Servers) -> None:
    match section:
        case Section.CPU:
            run_cpu(scope, sheet, meter)
        case Section.SERVED:
            run_served(scope, sheet, meter, servers)
        case Section.LATENCY:
            run_latency(scope, sheet, meter, servers)
        case Section.MEMORY:
            run_memory(scope, sheet, meter, servers.folder)
