"""Random requests to a deployment of the encoder example, each held against a rank on its own; processes are killed.

`python -m tests.encoder.soak` is the long form: a thousand requests, then as many while each process is killed in turn.
Exit code 1 on any loss or difference.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console

from examples.encoder.callers import Encoders
from examples.encoder.messages import Embedding, Outcome, Reply
from tests.encoder.deployment import Deployment, deployment

__all__ = ["KILLED_IN_TURN", "SoakOutcome", "picture", "soak"]

KILLED_IN_TURN = ("rank-0", "rank-1", "server", "gateway")
REQUESTS_AT_A_TIME = 4
LONGEST_REQUEST = 8
PICTURE_COUNT = 40
PATIENCE_SECONDS = 240.0
"""A killed process takes seconds to be there again, and more on a busy machine."""
console = Console()


@dataclass
class SoakOutcome:
    """What became of all requests."""

    answered_count: int = 0
    partly_cached_count: int = 0
    """Requests of which a rank held some images and not others."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Images by what came of them: an embedding, or the reason why there is none."""
    batches: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Runs of the ranks' encoders by the paths of their features."""
    kills: list[str] = field(default_factory=list)
    """The processes that were killed, while requests were under way."""
    complaints: list[str] = field(default_factory=list)

    @property
    def mixed_batch_count(self) -> int:
        """Runs whose features came by more than one path."""
        return sum(count for paths, count in self.batches.items() if len(paths) != 1)


def picture(width_px: int, height_px: int, seed: int) -> bytes:
    """Return a PNG of pixels of its own."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height_px, width_px, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


async def soak(running: Deployment, request_count: int, *, seed: int, kills: Sequence[str] = ()) -> SoakOutcome:
    """Send random requests, half of them to the ranks and half to the gateway.

    With `kills`, these processes are killed one after another meanwhile, each when the one before it is back, and
    requests go on until the last one is.
    """
    chance = random.Random(seed)
    pictures = [picture(chance.randint(20, 140), chance.randint(20, 140), index) for index in range(PICTURE_COUNT)]
    pictures += [pictures[0][:200], b"no image"]
    outcome = SoakOutcome()
    async with (
        Encoders(running.ranks, patience_seconds=PATIENCE_SECONDS) as ranks,
        Encoders([running.gateway], patience_seconds=PATIENCE_SECONDS) as gateway,
        Encoders([running.single], patience_seconds=PATIENCE_SECONDS) as single,
    ):
        under_way = 0

        async def send_requests() -> None:
            nonlocal under_way
            while outcome.answered_count + under_way < request_count or not killing.done():
                images = chance.choices(pictures, k=chance.randint(1, LONGEST_REQUEST))
                path, encoders = chance.choice([("DEFERRED_CPU", ranks), ("LOCAL", gateway)])
                under_way += 1
                reply, expected = await asyncio.gather(encoders.encode_images(images), single.encode_images(images))
                under_way -= 1
                _judge(outcome, path, reply, expected)

        async def kill_in_turn() -> None:
            for name in kills:
                enough = outcome.answered_count + request_count // (len(kills) + 1)
                while outcome.answered_count < enough or not under_way:
                    await asyncio.sleep(0.005)
                running.processes[name].kill()
                outcome.kills.append(name)
                await running.processes[name].until_ready()

        async with asyncio.TaskGroup() as group:
            killing = group.create_task(kill_in_turn())
            for _ in range(REQUESTS_AT_A_TIME):
                group.create_task(send_requests())
    return outcome


def _judge(outcome: SoakOutcome, path: str, reply: Reply, expected: Reply) -> None:
    """Hold a reply against that of the rank on its own, and count what is in it."""
    outcome.answered_count += 1
    if len(reply.outcomes) != len(expected.outcomes):
        outcome.complaints.append(f"Expected {len(expected.outcomes)} outcomes, got {len(reply.outcomes)}")
    for place, (got, wanted) in enumerate(zip(reply.outcomes, expected.outcomes, strict=False)):
        outcome.outcomes[_name(got)] += 1
        if _content(got) != _content(wanted):
            outcome.complaints.append(
                f"Expected image {place} of request {outcome.answered_count} to be {_name(wanted)} as of a rank on its "
                f"own, got {_name(got)} with other content by {path}"
            )
    outcome.batches.update(batch.paths for batch in reply.batches)
    strange = [batch.paths for batch in reply.batches if batch.paths != (path,)]
    if strange:
        outcome.complaints.append(f"Expected batches of {path}, got {strange}")
    cached: dict[int, set[bool]] = {}
    for got in reply.outcomes:
        if isinstance(got, Embedding):
            cached.setdefault(got.rank, set()).add(got.cached)
    outcome.partly_cached_count += any(len(held) == 2 for held in cached.values())


def _name(outcome: Outcome) -> str:
    return "embedding" if isinstance(outcome, Embedding) else outcome.reason


def _content(outcome: Outcome) -> object:
    return (outcome.array.shape, outcome.array.tobytes()) if isinstance(outcome, Embedding) else outcome


async def _run(request_count: int, seed: int) -> int:
    complaints: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        async with deployment(Path(folder)) as running:
            for kills in ((), KILLED_IN_TURN):
                started = time.monotonic()
                outcome = await soak(running, request_count, seed=seed, kills=kills)
                console.print(
                    f"{outcome.answered_count} requests in {time.monotonic() - started:.0f} s, killed: {outcome.kills}"
                )
                console.print(f"  {outcome.partly_cached_count} partly in a rank's cache; {dict(outcome.outcomes)}")
                console.print(f"  batches {dict(outcome.batches)}, of which {outcome.mixed_batch_count} mixed")
                complaints += outcome.complaints
            console.print(running.errors())
        for name, process in running.processes.items():
            console.print(f"{name}: ended with {process.exit_codes}")
    for complaint in complaints[:20]:
        console.print(complaint)
    return 1 if complaints else 0


def main() -> int:
    """Run both parts. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.encoder.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return asyncio.run(_run(arguments.requests, arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
