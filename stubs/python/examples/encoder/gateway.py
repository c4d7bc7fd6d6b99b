"""A gateway that preprocesses itself: images come in, finished features go to the encoder's ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from examples.encoder.callers import Encoders
from examples.encoder.faults import ConfigDiffers, Unavailable, persist
from examples.encoder.lane import fault_of
from examples.encoder.messages import FEATURES, Failure, Outcome, Reply, Request
from examples.encoder.sources import EncodedImage, FinishedFeatures
from monopath import AsyncClient, DataType, ItemError, LocalFeatures, MonopathError
from monopath.cli.local_features import FeatureMaker

__all__ = ["Gateway"]


class Gateway:
    """Takes the same requests as a rank, and gives the same embeddings; its features take the path LOCAL."""

    def __init__(self, client: AsyncClient, preset: str, encoders: Encoders) -> None:
        """`client` leads to the ranks' preprocessing server, which is asked for its config, and for nothing else."""
        self._client = client
        self._preset = preset
        self._encoders = encoders
        self._maker: tuple[FeatureMaker, bytes] | None = None

    async def encode(self, request: Request[EncodedImage]) -> Reply:
        """Return one outcome for each image. Raises Unavailable and Refused as the ranks do."""
        maker, config_sha256 = await persist(self._learn_config) if self._maker is None else self._maker
        made = await asyncio.to_thread(lambda: [_made(maker, source.data) for source in request.sources])
        sources = [FinishedFeatures(features) for features in made if isinstance(features, LocalFeatures)]
        try:
            reply = await self._encoders.encode(FEATURES, Request(sources, config_sha256))
        except ConfigDiffers as fault:
            self._maker = None
            raise Unavailable(str(fault)) from None
        return Reply(_filled_in(made, reply.outcomes), reply.batches)

    async def _learn_config(self) -> tuple[FeatureMaker, bytes]:
        """Open a stream of finished features for its `ready`: the config that holds, typed and complete."""
        try:
            async with self._client.local(preset=self._preset, data_type="float32") as stream:
                ready = stream.ready
        except MonopathError as error:
            raise fault_of(error) from None
        self._maker = FeatureMaker(ready, DataType.FLOAT32), ready.config_sha256
        return self._maker


def _made(maker: FeatureMaker, data: bytes) -> LocalFeatures | Failure:
    try:
        return maker.features(data, "")
    except ItemError as error:
        return Failure(error.reason, error.message)


def _filled_in(made: Sequence[LocalFeatures | Failure], encoded: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Return the ranks' outcomes with the images between them that have no features."""
    outcomes = iter(encoded)
    return tuple(part if isinstance(part, Failure) else next(outcomes) for part in made)
