"""Python, the packages, and whether their arithmetic is the right one."""

from __future__ import annotations

import functools
import importlib.util
import platform
import sys
import time
from importlib import metadata

from monopath_server import __version__
from monopath_server.diagnosis.finding import Finding, Findings, Level

__all__ = ["arithmetic_findings", "has_server", "package_findings"]

_INSTALL = "pip install 'monopath[server]'"
SERVER_PACKAGES = {
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "grpc_status": "grpcio-status",
    "numba": "numba",
    "PIL": "pillow",
    "safetensors": "safetensors",
}
"""What `monopath[server]` brings: modules and their packages."""


@functools.cache
def _missing() -> dict[str, str]:
    """Return the packages of a server that cannot be used, each with the reason."""
    missing: dict[str, str] = {}
    for module, package in SERVER_PACKAGES.items():
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            missing[package] = f"{package} is not installed"
        except Exception as error:
            missing[package] = f"{package} cannot be imported ({error})"
    return missing


def has_server() -> bool:
    """Return whether everything that a server needs is installed."""
    return not _missing()


def package_findings() -> Findings:
    """Say which Python and which packages there are."""
    yield Finding("python", Level.OK, f"{platform.python_version()} on {platform.platform()}")
    if sys.platform != "linux":
        yield Finding("system", Level.WARNING, sys.platform, "Linux: servers run, and are tested, nowhere else")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("grpcio", "protobuf", "numpy"))
    yield Finding("monopath", Level.OK, f"{__version__} with {versions}")
    if missing := _missing():
        # Pillow and numba are there for others too; what only a server needs tells whether one was meant to be.
        is_client_only = SERVER_PACKAGES["grpc_health"] in missing
        level = Level.WARNING if is_client_only else Level.PROBLEM
        found = "only the client is installed" if is_client_only else "not complete"
        yield Finding("server", level, f"{found}: {', '.join(missing.values())}", _INSTALL)
        return
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in ("numba", "llvmlite"))
    yield Finding("server", Level.OK, f"installed, with {versions}")
    if importlib.util.find_spec("uvloop") is None:
        yield Finding(
            "event loop", Level.WARNING, "asyncio's own", "pip install uvloop: small images are answered faster"
        )
    else:
        yield Finding("event loop", Level.OK, f"uvloop {metadata.version('uvloop')}")
    yield from _pillow_findings()


def arithmetic_findings() -> Findings:
    """Run the check that a server runs at its start. Takes half a minute where the kernel was never compiled."""
    from monopath_server.transforms.cpu.kernel import run_kernel
    from monopath_server.transforms.self_check import check_arithmetic

    started_seconds = time.perf_counter()
    try:
        check_arithmetic()
    except RuntimeError as error:
        advice = "Other releases of Pillow, numba and llvmlite; constraints.txt has those that were tested"
        yield Finding("arithmetic", Level.PROBLEM, str(error), advice)
        return
    seconds = time.perf_counter() - started_seconds
    yield Finding("arithmetic", Level.OK, "every known digest is met")
    cache_path = run_kernel.stats.cache_path
    if not cache_path:
        advice = "A folder to keep it in: NUMBA_CACHE_DIR; now every process compiles it, for several seconds"
        yield Finding("kernel", Level.WARNING, f"compiled in {seconds:.1f} s, and kept nowhere", advice)
    elif run_kernel.stats.cache_misses:
        yield Finding("kernel", Level.OK, f"compiled now, in {seconds:.1f} s; kept in {cache_path}")
    else:
        yield Finding("kernel", Level.OK, f"compiled before; kept in {cache_path}")


def _pillow_findings() -> Findings:
    import PIL
    from PIL import features

    from monopath_server.transforms.self_check import installed_resample_kernel

    found = f"{PIL.__version__}, whose resize is {installed_resample_kernel().name.upper()}"
    turbo = features.version_feature("libjpeg_turbo") if features.check_feature("libjpeg_turbo") else None
    if turbo is None:
        advice = "A Pillow with libjpeg-turbo, as its wheels are: others decode JPEGs to other pixels"
        yield Finding("pillow", Level.WARNING, f"{found}; no libjpeg-turbo", advice)
    else:
        yield Finding("pillow", Level.OK, f"{found}; libjpeg-turbo {turbo}")
    for name in ("webp", "zlib"):
        if not features.check(name):
            yield Finding("pillow", Level.WARNING, f"no {name}", "A Pillow with it: such images are refused")
