"""Starts a server, streams the demo's pictures on every path, and ends with exit code 1 if one byte is wrong."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from monopath import Client, DataType, PreprocessingPath, StreamErrorReason, StreamRefused
from tests.demo.comparison import Outcome, Run, outcomes
from tests.demo.pictures import Picture, pictures
from tests.demo.report import print_outcomes, print_refusal
from tests.support.processes import Finished, serving

_RUNS = (
    Run(PreprocessingPath.DEFERRED_CPU, "kimi-k2.5", DataType.FLOAT32),
    Run(PreprocessingPath.DEFERRED_CPU, "kimi-k3", DataType.BFLOAT16),
    Run(PreprocessingPath.LOCAL, "kimi-k2.5", DataType.BFLOAT16),
    Run(PreprocessingPath.LOCAL, "kimi-k3", DataType.UINT8),
    Run(PreprocessingPath.DEFERRED_CUDA, "kimi-k3", DataType.FLOAT16),
)


def main() -> int:
    """Run the demo and return its exit code."""
    console = Console(highlight=False)
    streamed = pictures()
    all_outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="monopath-demo-") as folder, contextlib.ExitStack() as stack:
        with console.status("Starting a server; its first start compiles the kernels"):
            server = stack.enter_context(serving("--address", f"unix:{Path(folder) / 'socket'}"))
        console.print(f"A server is ready at {server.address}", soft_wrap=True)
        with Client(server.address) as client:
            for run in _RUNS:
                all_outcomes += _run(console, client, run, streamed)
        stopped = server.stop()
    as_it_must = sum(outcome.as_it_must for outcome in all_outcomes)
    console.print(
        f"\n{as_it_must} of {len(all_outcomes)} results are as they must be; the server ended with exit code "
        f"{stopped.exit_code}"
    )
    return 0 if as_it_must == len(all_outcomes) and stopped == Finished(0, "", "") else 1


def _run(console: Console, client: Client, run: Run, streamed: list[Picture]) -> list[Outcome]:
    """Stream the pictures on one path and print what became of them."""
    try:
        with console.status(f"{run.path}: streaming, and computing the reference"):
            found = list(outcomes(client, run, streamed))
    except StreamRefused as refusal:
        if refusal.reason != StreamErrorReason.DEVICE_UNAVAILABLE:
            raise
        print_refusal(console, run, str(refusal))
        return []
    print_outcomes(console, run, found)
    return found


if __name__ == "__main__":
    sys.exit(main())
