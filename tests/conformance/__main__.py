"""`python -m tests.conformance`: every client runs every vector; one table; exit status 1 where anything is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tests.conformance.clients import BUF, PYTHON, ClientKind
from tests.conformance.generated import GENERATED, stale
from tests.conformance.servers import running_servers
from tests.conformance.snippets import SNIPPETS, run_snippet
from tests.conformance.suite import ClientReport, run_client
from tests.conformance.table import WIDTH, print_report
from tests.conformance.toolchains import TOOLCHAINS, Toolchain, ToolchainMissing, build, built
from tests.contract.vector_cases import load_vectors

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and return the exit status."""
    options = _options(arguments)
    console = Console(width=WIDTH)
    vectors = [vector for vector in load_vectors() if not options.vectors or vector.name in options.vectors]
    kinds, missing = _clients(options, console)
    with running_servers(options.cuda) as servers:
        reports = []
        for kind in kinds:
            _say(console, f"Running {len(vectors)} vectors with {kind.name}")
            report = run_client(kind, vectors, servers)
            reports.append(replace(report, example=None if options.vectors else _example(kind.name, servers.plain)))
    reports += missing
    print_report(console, reports, require_all=options.require_all)
    wrong = any(report.failed or (options.require_all and report.missing) for report in reports)
    is_stale = options.build and _is_any_stale({kind.name for kind in kinds}, console)
    return int(wrong or is_stale or not any(report.vectors for report in reports))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    names = [kind.name for kind in (*PYTHON, BUF)] + [toolchain.name for toolchain in TOOLCHAINS]
    vectors = [vector.name for vector in load_vectors()]
    parser.add_argument("--client", action="append", dest="clients", choices=names, help="only this (repeatable)")
    parser.add_argument("--vector", action="append", dest="vectors", choices=vectors, metavar="NAME", help="only this")
    parser.add_argument("--build", action="store_true", help="install what other languages need, and build them first")
    parser.add_argument(
        "--only-built", action="store_true", help="not Python's clients and buf curl: `make test` has them"
    )
    parser.add_argument("--require-all", action="store_true", help="fail where a client is missing")
    parser.add_argument(
        "--cuda", choices=("interpreter", "auto", "off"), default="interpreter", help="what the server with CUDA is"
    )
    return parser.parse_args(arguments)


def _clients(options: argparse.Namespace, console: Console) -> tuple[list[ClientKind], list[ClientReport]]:
    """The clients that can run here, and reports of those that cannot."""
    unbuilt = () if options.only_built else (*PYTHON, BUF)
    kinds = [kind for kind in unbuilt if not options.clients or kind.name in options.clients]
    wanted = [toolchain for toolchain in TOOLCHAINS if not options.clients or toolchain.name in options.clients]
    # Side by side: what one downloads takes no processor from what another compiles.
    with ThreadPoolExecutor(len(TOOLCHAINS)) as pool:
        faults = list(pool.map(lambda toolchain: _fault(toolchain, console, build_first=options.build), wanted))
    missing = []
    for toolchain, fault in zip(wanted, faults, strict=True):
        if fault:
            missing.append(ClientReport(toolchain.name, missing=fault))
        else:
            kinds.append(toolchain.kind)
    return kinds, missing


def _fault(toolchain: Toolchain, console: Console, *, build_first: bool) -> str:
    """Build a client where that is asked for. Returns why it cannot run; empty where it can."""
    try:
        if build_first:
            build(toolchain, lambda text: _say(console, text))
    except ToolchainMissing as why:
        return str(why)
    return "" if built(toolchain) else "not built; `make conformance` builds it"


def _is_any_stale(names: set[str], console: Console) -> bool:
    """Say whether the committed code of each language that was built is the contract's."""
    found = {generated.name: stale(generated) for generated in GENERATED if generated.name in names}
    for name, wrong in found.items():
        _say(console, f"Generated code of {name}: {wrong or 'up to date'}")
    return any(found.values())


def _example(name: str, address: str) -> str | None:
    """Run the example in the README of a client; None where it has none."""
    for snippet in SNIPPETS:
        if snippet.name == name:
            with tempfile.TemporaryDirectory() as directory:
                return run_snippet(snippet, address, Path(directory))
    return None


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
