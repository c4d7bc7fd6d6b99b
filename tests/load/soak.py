"""The long form of the load tests: `python -m tests.load.soak`, or `make soak`. Exit code 1 on any loss or leak.

Prints what was measured. A part alone: `--only items`, `stops`, `burst` or `quiet`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import fields

from rich.console import Console
from rich.table import Table

from tests.load.burst import burst
from tests.load.item_soak import soak_items
from tests.load.quiet import quiet_item
from tests.load.stopping import ACCEPTED_COUNT, GRACE_SECONDS, stop_under_load
from tests.support.footprint import use_few_heaps

__all__ = ["main"]

MIB = 1024 * 1024
STOP_ATTEMPTS = 20
BURST_STREAMS = 200
MOST_HEALTH_P99_SECONDS = 0.2
MOST_IDLE_CPU = 0.02
QUIET_SECONDS = 75.0
console = Console()


async def items(arguments: argparse.Namespace) -> list[str]:
    """Many small items, and what is held before and after."""
    use_few_heaps()
    outcome = await soak_items(arguments.items, arguments.streams, arguments.seed)
    table = Table("held", "before", "after", title=f"{outcome.sent_count} items over {outcome.stream_count} streams")
    assert outcome.before is not None
    assert outcome.after is not None
    for field in fields(outcome.before):
        table.add_row(field.name, str(getattr(outcome.before, field.name)), str(getattr(outcome.after, field.name)))
    console.print(table)
    console.print(", ".join(f"{count} {end}" for end, count in outcome.ends.most_common()))
    growth = outcome.after.rss_bytes / outcome.before.rss_bytes - 1
    console.print(f"memory grew by {growth:.1%}; {outcome.given_up_stream_count} streams were given up")
    return outcome.losses + outcome.leaks()


async def stops(_arguments: argparse.Namespace) -> list[str]:
    """SIGTERM to a busy server, again and again."""
    complaints: list[str] = []
    seconds: list[float] = []
    for attempt in range(1, STOP_ATTEMPTS + 1):
        trial = await stop_under_load()
        seconds.append(trial.stopping_seconds)
        complaints += [f"stop {attempt}: {complaint}" for complaint in trial.complaints]
        if trial.stopping_seconds > GRACE_SECONDS + 1:
            complaints.append(
                f"stop {attempt}: Expected at most {GRACE_SECONDS + 1} seconds, got {trial.stopping_seconds:.2f}"
            )
    console.print(
        f"{STOP_ATTEMPTS} stops with {ACCEPTED_COUNT} accepted items and a grace of {GRACE_SECONDS} s: "
        f"{min(seconds):.2f} to {max(seconds):.2f} s"
    )
    return complaints


async def burst_and_health(_arguments: argparse.Namespace) -> list[str]:
    """200 streams x 4 images of 12 megapixels, while health is asked for."""
    outcome = await burst(BURST_STREAMS, 4000, 3000, measure_idle=True)
    console.print(
        f"burst of {BURST_STREAMS} streams in {outcome.burst_seconds:.1f} s: {dict(outcome.ends)}; "
        f"{len(outcome.health.seconds)} health checks, p99 {outcome.health.p99_seconds * 1000:.0f} ms, "
        f"slowest {max(outcome.health.seconds) * 1000:.0f} ms; peak {outcome.peak_rss_bytes / MIB:.0f} MiB; "
        f"idle processor {outcome.idle_cpu:.1%}"
    )
    complaints = list(outcome.complaints)
    if outcome.health.p99_seconds >= MOST_HEALTH_P99_SECONDS:
        complaints.append(f"Expected health within {MOST_HEALTH_P99_SECONDS} s, got {outcome.health.p99_seconds:.3f}")
    if outcome.idle_cpu >= MOST_IDLE_CPU:
        complaints.append(f"Expected under {MOST_IDLE_CPU:.0%} of a processor when idle, got {outcome.idle_cpu:.1%}")
    return complaints


async def quiet(_arguments: argparse.Namespace) -> list[str]:
    """An item of 75 seconds, under real intervals of pings."""
    code = await quiet_item(QUIET_SECONDS)
    console.print(f"an item of {QUIET_SECONDS:g} s whose client pings: {code}")
    return [] if code == "OK" else [f"Expected OK after {QUIET_SECONDS:g} silent seconds, got {code}"]


PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[list[str]]]] = {
    "items": items,
    "stops": stops,
    "burst": burst_and_health,
    "quiet": quiet,
}


def main() -> int:
    """Run all parts, or one. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak", description=__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=PARTS)
    arguments = parser.parse_args()
    complaints: list[str] = []
    for name, run in PARTS.items():
        if arguments.only in (None, name):
            started = time.monotonic()
            found = asyncio.run(_run(run, arguments))
            console.print(
                f"{name}: {'; '.join(found[:20]) if found else 'good'} ({time.monotonic() - started:.0f} s)\n"
            )
            complaints += found
    return 1 if complaints else 0


async def _run(part: Callable[[argparse.Namespace], Awaitable[list[str]]], arguments: argparse.Namespace) -> list[str]:
    return await part(arguments)


if __name__ == "__main__":
    sys.exit(main())
