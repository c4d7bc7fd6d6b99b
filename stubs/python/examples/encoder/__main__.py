"""`python -m examples.encoder`: a worker, a gateway, or a caller of either."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Annotated

import typer

from examples.encoder.callers import Encoders
from examples.encoder.messages import IMAGES, Embedding, Failure, unpack_request
from examples.encoder.wire import RECONNECT_OPTIONS, serve
from monopath import AsyncClient, Transport

__all__ = ["main"]

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

Preprocessing = Annotated[str, typer.Option(metavar="ADDRESS", help="The preprocessing server: `monopath serve`.")]
Workers = Annotated[
    list[str], typer.Option(metavar="ADDRESS", help="Where a rank listens; once for each rank, in their order.")
]
PresetName = Annotated[str, typer.Option(help="The preprocessing config, by its name.")]


@app.command()
def worker(
    preprocessing: Preprocessing,
    worker: Workers,
    rank: Annotated[int, typer.Option(min=0, help="Which of the ranks this one is.")] = 0,
    preset: PresetName = "kimi-k3",
    transport: Annotated[
        Transport,
        typer.Option(
            help="How images and features travel; cuda_ipc: preprocess and encode on the GPU, and stay there."
        ),
    ] = Transport.SHARED_MEMORY,
    cache_bytes: Annotated[int, typer.Option(min=0, help="Embeddings to keep.")] = 64 << 20,
    seed: Annotated[int, typer.Option(help="Of the random weights; the same for all ranks.")] = 0,
    shared_memory_dir: Annotated[Path | None, typer.Option(help="Where worker and server meet.")] = None,
) -> None:
    """Run one rank of an encoder until SIGTERM."""
    # Imported here: torch takes seconds, and no other process needs it.
    from examples.encoder.worker import WorkerSettings, run_worker

    if rank >= len(worker):
        raise typer.BadParameter(f"Expected a rank below {len(worker)}, got {rank}", param_hint="--rank")
    asyncio.run(
        run_worker(
            WorkerSettings(
                rank=rank,
                addresses=worker,
                preprocessing=preprocessing,
                preset=preset,
                transport=transport,
                cache_bytes=cache_bytes,
                seed=seed,
                shared_memory_directory=shared_memory_dir,
            )
        )
    )


@app.command()
def gateway(
    preprocessing: Preprocessing,
    worker: Workers,
    address: Annotated[str, typer.Option(help="Where to listen.")],
    preset: PresetName = "kimi-k3",
) -> None:
    """Run a gateway that preprocesses itself, until SIGTERM. It takes what a worker takes."""
    # Imported here: it brings the kernels of the CPU transform.
    from examples.encoder.gateway import Gateway

    async def run() -> None:
        async with (
            AsyncClient(preprocessing, options=RECONNECT_OPTIONS) as client,
            Encoders(worker) as encoders,
        ):
            own = Gateway(client, preset, encoders)

            async def encode(message: bytes) -> bytes:
                return (await own.encode(unpack_request(IMAGES, message))).packed()

            await serve(address, {IMAGES.method: encode}, "gateway")

    asyncio.run(run())


@app.command()
def encode(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...")],
    address: Annotated[list[str], typer.Option(help="A rank or a gateway; several are tried in turn.")],
) -> None:
    """Have image files encoded, and write what came of each: tokens, channels, and a digest of the embedding."""

    async def run() -> None:
        async with Encoders(address) as encoders:
            reply = await encoders.encode_images([file.read_bytes() for file in images])
        for file, outcome in zip(images, reply.outcomes, strict=True):
            match outcome:
                case Embedding(array, rank, cached):
                    sha256 = hashlib.sha256(array.tobytes()).hexdigest()
                    typer.echo(f"{file}: {array.shape} rank {rank}{' cached' if cached else ''} {sha256}")
                case Failure(reason, message):
                    typer.echo(f"{file}: {reason}: {message}")

    asyncio.run(run())


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m examples.encoder")


if __name__ == "__main__":
    main()
