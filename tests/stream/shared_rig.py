"""A server and a client that share a directory of their own, for tests of delivery by handle."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monopath.v1 import service_pb2_grpc
from tests.support.segments import ClientMemory, segment_names, shared_directory
from tests.support.server import quick_settings
from tests.support.stream import PathName, RawStream, Rig, encoded, make_config, make_item, photo, png, running_rig

__all__ = ["SharedRig", "finished", "opened_with_deadline", "serve_others", "shared_rig"]


@dataclass
class SharedRig(Rig):
    """A running server and a client with memory of its own."""

    memory: ClientMemory

    def config(self, path: PathName = "deferred_cpu", **arguments: Any) -> Any:
        """The request that opens a stream over shared memory."""
        return make_config(path, probe=self.memory.probe, **arguments)

    async def open_shared(self, path: PathName = "deferred_cpu", **arguments: Any) -> RawStream:
        """An open stream over shared memory."""
        return await self.open(self.config(path, **arguments), path)

    @property
    def pool(self) -> Any:
        """The server's segments."""
        memory = self.server.engines.shared_memory
        assert memory is not None
        return memory.pool

    @property
    def lease_count(self) -> int:
        """Leases of all streams."""
        return self.server.engines.lease_count


@contextlib.asynccontextmanager
async def shared_rig(directory: Path | None = None, **settings: object) -> AsyncIterator[SharedRig]:
    """Run a server whose segments are in `directory`, or in a fresh one, where nothing of the server's may stay."""
    with contextlib.ExitStack() as stack:
        place = directory or stack.enter_context(shared_directory())
        memory = stack.enter_context(ClientMemory(place))
        async with running_rig(quick_settings(shared_memory_directory=place, **settings)) as rig:
            yield SharedRig(rig.server, rig.channel, memory)
        assert not {name for name in segment_names(place) if not name.lower().startswith(memory.owner_name)}


async def opened_with_deadline(rig: SharedRig, timeout_seconds: float) -> RawStream:
    """An open stream over shared memory that its client gives a bounded time."""
    stream = RawStream(rig.channel, "deferred_cpu", rig.directory)
    stream.call.cancel()  # the one without a deadline: nothing was sent on it
    stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
    stream.call = stub.StreamDeferredCpu(timeout=timeout_seconds)
    await stream.send(rig.config())
    await stream.read_until("ready")
    return stream


async def finished(stream: RawStream) -> RawStream:
    """The stream, read to its good end."""
    assert await stream.finish() == "OK"
    return stream


async def serve_others(rig: SharedRig, count: int) -> set[str]:
    """Serve so many items to another client, which releases each; return the names of their segments."""
    names: set[str] = set()
    stream = await rig.open_shared()
    for item_id in range(1, count + 1):
        await stream.send(make_item(item_id, encoded(png(photo(50, 40, item_id % 7)))))
        await stream.read_until("completion", item_id)
        mapped = stream.outcomes[item_id].mapped
        assert mapped is not None
        names.add(mapped.handle.name)
        await stream.release(item_id)
    await finished(stream)
    return names
