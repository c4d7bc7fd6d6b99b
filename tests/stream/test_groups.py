"""Responses that are there at the same time come as one message, where the config asks for it, and only there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monopath.v1 import error_pb2, service_pb2, tensor_pb2
from monopath_server.serving.groups import MAX_GROUP_BYTES, Grouped
from monopath_server.serving.outbox import Ending, Outbox
from monopath_server.serving.paths import DEFERRED_CPU
from tests.support.server import quick_settings
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, running_rig

SMALL = encoded(png(photo(50, 40)))
LARGE = encoded(png(photo(900, 700)))
DAMAGED = encoded(png(photo(50, 40))[:-200])


def grouping_config(**arguments: Any) -> Any:
    request = make_config(**arguments)
    request.config.output.group_responses = True
    return request


def arms(response: Any) -> list[str]:
    """Of one message."""
    found: str = response.WhichOneof("payload")
    if found == "group":
        return [one.WhichOneof("payload") for one in response.group.responses]
    return [found]


async def repeated(config: Any) -> RawStream:
    """A stream on which one image comes twice, the second time when its features are there."""
    async with running_rig(quick_settings(cache_bytes=64 << 20)) as rig:
        stream = await rig.open(config)
        for item_id in (1, 2):
            await stream.send(make_item(item_id, SMALL))
            while not (outcome := stream.outcomes.get(item_id)) or outcome.completion is None:
                assert await stream.read() is not None
        assert await stream.finish() == "OK"
    assert stream.outcomes[1].sha256 == stream.outcomes[2].sha256
    return stream


@pytest.mark.asyncio
async def test_a_repeated_image_is_answered_by_one_message() -> None:
    stream = await repeated(grouping_config())
    (hit,) = [response for response in stream.events if "plan" in arms(response)][1:]
    assert arms(hit) == ["plan", "features", "completion"]
    assert {one.plan.id or one.features.id or one.completion.id for one in hit.group.responses} == {2}


@pytest.mark.asyncio
async def test_without_being_asked_for_every_response_comes_alone() -> None:
    stream = await repeated(make_config())
    assert all(len(arms(response)) == 1 for response in stream.events)


@pytest.mark.asyncio
async def test_many_items_good_bad_and_large_keep_the_grammar_and_their_bytes_in_groups() -> None:
    images = [SMALL, DAMAGED, LARGE] * 8
    items = [make_item(number, image) for number, image in enumerate(images, start=1)]
    async with running_rig() as rig:
        for as_sent in (False, True):
            grouped = await rig.run(items, grouping_config(data_type=tensor_pb2.DATA_TYPE_FLOAT32, as_sent=as_sent))
            alone = await rig.run(items, make_config(data_type=tensor_pb2.DATA_TYPE_FLOAT32, as_sent=as_sent))
            for item_id, outcome in alone.outcomes.items():
                assert grouped.outcomes[item_id].sha256 == outcome.sha256
                assert grouped.outcomes[item_id].reason == outcome.reason
            for response in grouped.events:
                if response.WhichOneof("payload") == "group":
                    assert response.ByteSize() <= MAX_GROUP_BYTES + 1024
            assert len(grouped.events) <= len(alone.events)


class Source:
    """An outbox with what a test puts there, and what was said of its endings."""

    def __init__(self) -> None:
        self.outbox = Outbox[Any](as_sent=False)
        self.done: list[bool] = []

    def put(self, *sizes_bytes: int) -> None:
        """Events of these sizes, and an ending behind them."""
        for size_bytes in sizes_bytes:
            self.outbox.put_event(bytes(size_bytes))
        self.outbox.put_ending(1, Ending(iter((b"end",)), self.done.append))


def joined(responses: Sequence[bytes]) -> bytes:
    return b"[" + b"|".join(responses) + b"]"


@given(
    sizes_bytes=st.lists(
        st.sampled_from((1, 1000, MAX_GROUP_BYTES // 2, MAX_GROUP_BYTES - 1, MAX_GROUP_BYTES, 1 << 20))
    )
)
def test_nothing_is_lost_or_moved_whatever_fits_together(sizes_bytes: list[int]) -> None:
    async def run() -> list[bytes]:
        source = Source()
        source.put(*sizes_bytes)
        source.outbox.close()
        written = [response async for response in Grouped(source.outbox, joined)]
        assert source.done == [True]
        return written

    written = asyncio.run(run())
    parts = [part for one in written for part in (one[1:-1].split(b"|") if one.startswith(b"[") else [one])]
    assert [len(part) for part in parts[:-1]] == sizes_bytes
    assert parts[-1] == b"end"
    for one in written:
        assert len(one) <= max(MAX_GROUP_BYTES + len(parts) + 2, *sizes_bytes, 3)


def test_the_bytes_of_features_are_taken_before_their_memory_is_given_back() -> None:
    memory = bytearray(b"features")

    async def run() -> bytes:
        outbox = Outbox[Any](as_sent=False)

        def give_back(_was_written: bool) -> None:
            memory[:] = b"another!"

        outbox.put_event(DEFERRED_CPU.shared("error", error_pb2.ItemError(id=7)))
        features = (bytes(memory) for _ in range(1))
        outbox.put_ending(1, Ending(features, give_back))
        outbox.close()
        return await anext(Grouped(outbox, DEFERRED_CPU.group))

    group = asyncio.run(run())
    assert memory == b"another!"
    assert b"features" in group
    assert service_pb2.StreamDeferredCpuResponse(error=error_pb2.ItemError(id=7)).SerializeToString() in group
