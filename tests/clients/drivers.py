"""Runs the same test over the sync and the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from monopath import AsyncClient, Client, Resume

KINDS = pytest.mark.parametrize("kind", ["sync", "asyncio"])

QUICK = Resume(max_opening_count=4, first_wait_seconds=0.01, max_wait_seconds=2.0)
"""Gives up soon, so that a test does not wait for a server that never comes."""

ARGUMENTS: dict[str, Any] = {"preset": "kimi-k3", "data_type": "float32"}
SHARED: dict[str, Any] = {**ARGUMENTS, "transport": "shared_memory", "timeout_seconds": 60}
"""For tests whose failure is a server that waits for ever."""


def map_all(
    kind: str,
    address: str | Sequence[str],
    images: Iterable[Any],
    *,
    method: str = "deferred_cpu",
    on_plan: Callable[[Any], None] | None = None,
    seen: dict[str, Any] | None = None,
    options: Sequence[tuple[str, str | int]] = (),
    streams: int = 1,
    resume: Resume = QUICK,
    directory: Path | None = None,
    access: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> list[Any]:
    """Open a stream, map the images over it, and return the results. `seen` receives ready and summary.

    `directory` is where shared memory lies, `access` the client's credentials and token.
    """
    arguments = {**ARGUMENTS, **arguments}
    found = {} if seen is None else seen

    def run_sync() -> list[Any]:
        with Client(address, options=options, shared_memory_directory=directory, **(access or {})) as client:
            with getattr(client, method)(**arguments) as stream:
                found["ready"] = stream.ready
                results = list(stream.map(images, on_plan=on_plan, streams=streams, resume=resume))
            found["summary"] = stream.summary
            return results

    async def run_async() -> list[Any]:
        async with AsyncClient(address, options=options, shared_memory_directory=directory, **(access or {})) as client:
            async with getattr(client, method)(**arguments) as stream:
                found["ready"] = stream.ready
                results = [
                    result async for result in stream.map(images, on_plan=on_plan, streams=streams, resume=resume)
                ]
            found["summary"] = stream.summary
            return results

    return run_sync() if kind == "sync" else asyncio.run(asyncio.wait_for(run_async(), 60))
