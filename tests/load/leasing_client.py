"""A client that leases features and never gives them back, to be killed: `... leasing_client ADDRESS DIRECTORY`.

It says `leased` once it holds `LEASE_COUNT` of them, and goes on sending and reading until it dies.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

import grpc

from tests.support.segments import ClientMemory, located_file
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png

__all__ = ["LEASE_COUNT", "hold_leases", "image_of"]

LEASE_COUNT = 40


def image_of(item_id: int) -> bytes:
    """An image file that no other item has."""
    return png(photo(60 + item_id, 50, item_id))


async def hold_leases(channel: grpc.aio.Channel, memory: ClientMemory) -> RawStream:
    """A stream that holds `LEASE_COUNT` features while as many items again are under way; each checked as it came."""
    stream = RawStream(channel, "deferred_cpu", memory.directory)
    await stream.send(make_config(probe=memory.probe))
    await stream.read_until("ready")
    await stream.send(
        *(make_item(item_id, located_file(memory.put(image_of(item_id)))) for item_id in range(1, LEASE_COUNT + 1))
    )
    while sum(outcome.completion is not None for outcome in stream.outcomes.values()) < LEASE_COUNT:
        assert await stream.read() is not None
    assert all(outcome.mapped is not None for outcome in stream.outcomes.values())
    later = range(LEASE_COUNT + 1, 2 * LEASE_COUNT + 1)
    await stream.send(*(make_item(item_id, encoded(image_of(item_id))) for item_id in later))
    return stream


async def main(address: str, directory: Path) -> None:
    """Lease, say so, and go on until the process is killed."""
    with ClientMemory(directory) as memory:
        async with grpc.aio.insecure_channel(address) as channel:
            stream = await hold_leases(channel, memory)
            sys.stdout.write("leased\n")
            sys.stdout.flush()
            for item_id in itertools.count(2 * LEASE_COUNT + 1):
                await stream.send(make_item(item_id, located_file(memory.put(image_of(1)))))
                assert await stream.read() is not None


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
