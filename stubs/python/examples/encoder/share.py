"""What one rank does with its share of a request: look up, preprocess the rest, encode, remember."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Generic

from examples.encoder.cache import EmbeddingCache
from examples.encoder.faults import ConfigDiffers, Unavailable
from examples.encoder.lane import Lane
from examples.encoder.messages import BatchReport, Embedding, Failure, Outcome, Reply, Request
from examples.encoder.moonvit import MoonVit, encode_batch
from examples.encoder.sources import Source
from monopath import InputT, ItemAttemptsExhausted, ItemError, PathT, Result

__all__ = ["ShareEncoder"]


class ShareEncoder(Generic[PathT, InputT]):
    """Encodes by one path. Whatever the cache holds, the rest of a request goes by that path, in one batch."""

    def __init__(
        self, lane: Lane[PathT, InputT], encoder: MoonVit, executor: Executor, cache: EmbeddingCache, *, rank: int
    ) -> None:
        """`executor` has one thread, which is the encoder's."""
        self._lane = lane
        self._encoder = encoder
        self._executor = executor
        self._cache = cache
        self._rank = rank

    async def encode(self, share: Request[Source[InputT]]) -> Reply:
        """Return an outcome for each image of the share, which was planned under `share.config_sha256`.

        Raises ConfigDiffers where the preprocessing server has another config by now, Unavailable where it has no room,
        and as the lane does.
        """
        digests = await asyncio.to_thread(lambda: [source.content_sha256() for source in share.sources])
        outcomes: list[Outcome | None] = []
        for digest in digests:
            held = self._cache.get(digest, share.config_sha256)
            outcomes.append(None if held is None else Embedding(held, self._rank, cached=True))
        missing = [place for place, outcome in enumerate(outcomes) if outcome is None]
        results = await self._lane.results([share.sources[place] for place in missing])
        try:
            batch: dict[int, Result[PathT]] = {}
            for place, result in zip(missing, results, strict=True):
                if result.error is not None:
                    outcomes[place] = _failure(result.error)
                else:
                    self._check_config(result, share.config_sha256)
                    batch[place] = result
            embeddings = await self._run(list(batch.values()))
            paths = tuple(sorted({result.provenance.path for result in batch.values()}))
        finally:
            for result in results:
                result.release()
        for place, embedding in zip(batch, embeddings, strict=True):
            self._cache.put(digests[place], share.config_sha256, embedding.array)
            outcomes[place] = embedding
        reports = (BatchReport(self._rank, len(batch), paths),) if batch else ()
        return Reply(tuple(outcome for outcome in outcomes if outcome is not None), reports)

    async def _run(self, batch: Sequence[Result[PathT]]) -> list[Embedding]:
        """Encode, in the encoder's thread."""
        loop = asyncio.get_running_loop()
        tokens = await loop.run_in_executor(self._executor, encode_batch, self._encoder, batch)
        return [Embedding(tensor.numpy(), self._rank, cached=False) for tensor in tokens]

    def _check_config(self, result: Result[PathT], config_sha256: bytes) -> None:
        got = result.provenance.config_sha256
        if got != config_sha256:
            raise ConfigDiffers(f"Expected features of config {config_sha256.hex()[:12]}, got {got.hex()[:12]}")


def _failure(error: ItemError) -> Failure:
    """Return what the caller is told of a bad image. Raises Unavailable for one that only came at a bad time."""
    # One that was on every stream that was lost may be what kills servers: it is not sent again.
    if error.retryable and not isinstance(error, ItemAttemptsExhausted):
        raise Unavailable(str(error))
    return Failure(error.reason, error.message)
