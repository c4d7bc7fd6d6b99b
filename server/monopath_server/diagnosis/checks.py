"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from monopath_server.diagnosis.finding import Finding, Findings, Level
from monopath_server.diagnosis.gpu import gpu_findings
from monopath_server.diagnosis.processor import memory_findings, processor_findings
from monopath_server.diagnosis.resources import descriptor_findings, shared_memory_findings
from monopath_server.diagnosis.software import arithmetic_findings, has_server, package_findings
from monopath_server.settings import Settings

__all__ = ["diagnose"]


def diagnose(settings: Settings, process_count: int = 1) -> Iterator[Finding]:
    """Yield what a server, or several with the same settings, would have on this host."""
    yield from _guarded("packages", package_findings)
    if has_server():
        yield from _guarded("arithmetic", arithmetic_findings)
    yield from _guarded("processor", lambda: processor_findings(settings, process_count))
    yield from _guarded("memory", lambda: memory_findings(settings, process_count))
    yield from _guarded("shared memory", lambda: shared_memory_findings(settings, process_count))
    yield from _guarded("descriptors", descriptor_findings)
    yield from _guarded("gpu", lambda: gpu_findings(settings))


def _guarded(subject: str, check: Callable[[], Findings]) -> Findings:
    """A check that fails by itself is a finding too, and the others go on."""
    try:
        yield from check()
    except Exception as error:
        yield Finding(subject, Level.PROBLEM, f"the check failed: {type(error).__name__}: {error}")
