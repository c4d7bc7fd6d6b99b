"""How much earlier than its features the plan of an image comes: `python -m tests.bench.bench_plan`.

One item at a time on one stream of a server in this process, so that nothing queues. Measures; checks nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from monopath.v1 import tensor_pb2
from monopath_server.bench.pictures import picture
from monopath_server.processors.types import Size
from tests.support.stream import encoded, make_config, make_item, preset, running_rig

ITEM_COUNT = 15
SIZES = ((1920, 1080), (4000, 3000))


async def measure(data: bytes, name: str) -> tuple[float, float]:
    """Median milliseconds from sending an item until its plan, and until its completion."""
    plan_ms: list[float] = []
    features_ms: list[float] = []
    async with running_rig() as rig:
        stream = await rig.open(make_config(processor=preset(name), data_type=tensor_pb2.DATA_TYPE_BFLOAT16))
        for item_id in range(1, ITEM_COUNT + 2):
            started = time.perf_counter()
            await stream.send(make_item(item_id, encoded(data)))
            await stream.read_until("plan")
            planned = time.perf_counter()
            await stream.read_until("completion")
            if item_id > 1:  # the first one finds cold memory
                plan_ms.append((planned - started) * 1e3)
                features_ms.append((time.perf_counter() - started) * 1e3)
        await stream.finish()
    return statistics.median(plan_ms), statistics.median(features_ms)


async def main() -> None:
    """Print one line for each size and config."""
    sys.stdout.write(f"{'image':>12} {'config':>10} {'plan p50 ms':>12} {'features p50 ms':>16} {'ratio':>7}\n")
    for width_px, height_px in SIZES:
        data = picture(Size(width_px, height_px)).data
        for name in ("kimi-k2.5", "kimi-k3"):
            plan, features = await measure(data, name)
            size = f"{width_px}x{height_px}"
            sys.stdout.write(f"{size:>12} {name:>10} {plan:12.2f} {features:16.1f} {plan / features:7.3f}\n")


if __name__ == "__main__":
    asyncio.run(main())
