"""A data-parallel rank: takes whole requests, shares them out over all ranks, and puts what comes back together."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from examples.encoder.faults import ConfigDiffers, Unavailable, persist
from examples.encoder.lane import fault_of
from examples.encoder.messages import Kind, Outcome, Reply, Request
from examples.encoder.share import ShareEncoder
from examples.encoder.sources import Source
from examples.encoder.wire import Peer
from monopath import AsyncClient, InputT, MonopathError, PathT, PlanReply, Size

__all__ = ["Rank"]

_PLAN_SECONDS = 10.0


class Rank:
    """One of several ranks with the same weights. Each of them leads the requests that it is sent."""

    def __init__(self, client: AsyncClient, preset: str, rank: int, others: Mapping[int, Peer]) -> None:
        """`client` leads to the preprocessing server, `others` to all ranks but this one."""
        self._client = client
        self._preset = preset
        self._rank = rank
        self._others = others

    async def encode(
        self, own: ShareEncoder[PathT, InputT], kind: Kind[Source[InputT]], request: Request[Source[InputT]]
    ) -> Reply:
        """Encode a whole request, by the path of `own`, which is this rank's.

        Raises Unavailable where the server or a rank does not come back, ConfigDiffers for features of another config
        than the server's, and Refused as `own` does.
        """
        sizes = await asyncio.to_thread(lambda: [source.size() for source in request.sources])
        plan = await persist(lambda: self._plan([size for size in sizes if size is not None]))
        if request.config_sha256 not in (b"", plan.config_sha256):
            raise ConfigDiffers(
                f"Expected features of config {plan.config_sha256.hex()[:12]}, got {request.config_sha256.hex()[:12]}"
            )
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, owner in enumerate(self._owners(sizes, plan)):
            places[owner].append(place)

        async def encode_share(rank: int) -> Reply:
            share = Request([request.sources[place] for place in places[rank]], plan.config_sha256)
            if rank == self._rank:
                return await own.encode(share)
            # A rank that was killed is asked again until it is back: what the others have done is not lost with it.
            return await persist(lambda: self._others[rank].encode_share(kind, share))

        tasks = [asyncio.create_task(encode_share(rank)) for rank in places]
        try:
            replies = await asyncio.gather(*tasks)
        except ConfigDiffers as fault:
            # The server was started with another config while the request was under way: it is to be planned again.
            raise Unavailable(str(fault)) from None
        finally:
            for task in tasks:
                task.cancel()
        return _merged(list(places.values()), replies)

    async def _plan(self, sizes: Sequence[Size]) -> PlanReply:
        """Ask which rank owns which image.

        That is done for the whole request and before any cache is looked at, so that what a rank holds already never
        changes who encodes the rest, or how.
        """
        try:
            return await self._client.plan(
                sizes,
                preset=self._preset,
                encoder_rank_count=1 + len(self._others),
                timeout_seconds=_PLAN_SECONDS,
            )
        except MonopathError as error:
            raise fault_of(error) from None

    def _owners(self, sizes: Sequence[Size | None], plan: PlanReply) -> list[int]:
        """Return each image's rank. One that has no plan is nobody's; it goes to any rank, to fail there."""
        planned = iter(plan.images)
        owners = (None if size is None else next(planned).encoder_rank for size in sizes)
        return [place % (1 + len(self._others)) if owner is None else owner for place, owner in enumerate(owners)]


def _merged(places: Sequence[Sequence[int]], replies: Sequence[Reply]) -> Reply:
    """Return the outcomes of all shares in the order of the request."""
    outcomes: dict[int, Outcome] = {}
    for share, reply in zip(places, replies, strict=True):
        outcomes.update(zip(share, reply.outcomes, strict=True))
    batches = tuple(batch for reply in replies for batch in reply.batches)
    return Reply(tuple(outcomes[place] for place in range(len(outcomes))), batches)
