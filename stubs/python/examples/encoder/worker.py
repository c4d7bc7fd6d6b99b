"""An encoder worker: the process of one data-parallel rank, put together and taken apart."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from examples.encoder.cache import EmbeddingCache
from examples.encoder.lane import Lane
from examples.encoder.messages import FEATURES, IMAGES, Kind, unpack_request
from examples.encoder.moonvit import MoonVit
from examples.encoder.rank import Rank
from examples.encoder.share import ShareEncoder
from examples.encoder.sources import Source
from examples.encoder.wire import RECONNECT_OPTIONS, Methods, Peer, serve
from monopath import AsyncClient, AsyncStream, InputT, PathT, StreamArguments, Transport

__all__ = ["WorkerSettings", "run_worker"]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What one worker is told."""

    rank: int
    addresses: Sequence[str]
    """Where the ranks listen, in their order: this one's own among them."""
    preprocessing: str
    """Address of the preprocessing server."""
    preset: str
    transport: Transport
    """How images and features travel: in messages from a pool of servers, in shared memory on one host, or, over CUDA
    IPC, not at all: images are then preprocessed and encoded on one GPU. Finished features never are on a GPU."""
    cache_bytes: int
    seed: int
    """Of the weights."""
    shared_memory_directory: Path | None


async def run_worker(settings: WorkerSettings) -> None:
    """Serve one rank until SIGTERM or Ctrl-C. Raises RuntimeError where it cannot listen."""
    # One thread, since sums depend on how many threads share them.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    # What cuBLAS takes to be deterministic; torch refuses to use it otherwise.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    encoder = MoonVit(seed=settings.seed, device="cuda" if settings.transport is Transport.CUDA_IPC else "cpu")
    cache = EmbeddingCache(settings.cache_bytes)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            AsyncClient(
                settings.preprocessing,
                options=RECONNECT_OPTIONS,
                shared_memory_directory=settings.shared_memory_directory,
            )
        )
        executor = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="encoder"))
        others = {
            number: await stack.enter_async_context(Peer(address))
            for number, address in enumerate(settings.addresses)
            if number != settings.rank
        }
        rank = Rank(client, settings.preset, settings.rank, others)

        def methods(open_stream: Callable[[], AsyncStream[PathT, InputT]], kind: Kind[Source[InputT]]) -> Methods:
            """Return the methods of one path, with a stream that is opened for the first request."""
            lane = Lane(open_stream)
            stack.push_async_callback(lane.close)
            share_encoder = ShareEncoder(lane, encoder, executor, cache, rank=settings.rank)

            async def encode(message: bytes) -> bytes:
                return (await rank.encode(share_encoder, kind, unpack_request(kind, message))).packed()

            async def encode_share(message: bytes) -> bytes:
                return (await share_encoder.encode(unpack_request(kind, message))).packed()

            return {kind.method: encode, kind.share_method: encode_share}

        arguments: StreamArguments = {
            "preset": settings.preset,
            "data_type": "float32",
            "transport": settings.transport,
        }
        if settings.transport is Transport.CUDA_IPC:
            images = methods(lambda: client.deferred_cuda(**arguments), IMAGES)
            local_arguments: StreamArguments = {**arguments, "transport": Transport.SHARED_MEMORY}
        else:
            images = methods(lambda: client.deferred_cpu(**arguments), IMAGES)
            local_arguments = arguments
        features = methods(lambda: client.local(**local_arguments), FEATURES)
        name = f"encoder rank {settings.rank}"
        await serve(settings.addresses[settings.rank], {**images, **features}, name)
