"""Made-up scripts of whole streams, good and broken, held to the grammar and to a model of what must come of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monopath.v1 import event_pb2, service_pb2
from monopath_server.app import Server
from tests.support.footprint import settle
from tests.support.grammar import Party
from tests.support.server import quick_settings
from tests.support.stream import RawStream, Rig, encoded, make_config, make_item, photo, png, raw_pixels

PICTURES = {
    "good": encoded(png(photo(50, 40))),
    "raw": raw_pixels(photo(30, 20).tobytes(), 30, 20),
    "IMAGE_DAMAGED": encoded(png(photo(90, 90))[:300]),
    "IMAGE_UNSUPPORTED": encoded(b"no image"),
    "IMAGE_EMPTY": encoded(b""),
    "PIXELS_SIZE_MISMATCH": raw_pixels(bytes(5), 3, 3),
    "IMAGE_SIZE_INVALID": raw_pixels(b"", 0, 3),
}


@dataclass(frozen=True)
class Step:
    """One thing a client does."""

    verb: str
    """item, cancel, release, wait; or a broken rule: old id, strange id, second config, foreign."""
    picture: str = "good"
    id_step: int = 1
    choice: int = 0


GOOD_STEPS = st.one_of(
    st.builds(Step, st.just("item"), st.sampled_from(sorted(PICTURES)), st.integers(1, 1000)),
    st.builds(Step, st.sampled_from(["cancel", "release", "wait"]), choice=st.integers(0, 100)),
)
BROKEN_STEPS = st.sampled_from([Step("old id"), Step("strange id"), Step("second config"), Step("foreign")])
REASONS = {
    "old id": "ITEM_ID_INVALID",
    "strange id": "ITEM_ID_INVALID",
    "second config": "CONFIG_REPEATED",
    "foreign": "PAYLOAD_UNKNOWN",
}


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    """Good steps, of which a third of the scripts has a broken one among them."""
    steps = draw(st.lists(GOOD_STEPS, max_size=25))
    if draw(st.integers(0, 2)) == 0:
        steps.insert(draw(st.integers(0, len(steps))), draw(BROKEN_STEPS))
    return steps


@dataclass
class Model:
    """What must come of a script."""

    ends: dict[int, str] = field(default_factory=dict)
    """By id of an accepted item: completed, or its reason."""
    cancelled: set[int] = field(default_factory=set)
    reason: str = ""
    """Of the whole stream; empty where it is good."""


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """An event loop that goes on between the scripts."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def rig(loop: asyncio.Runner) -> Iterator[Rig]:
    """One server for all scripts."""

    async def start() -> Rig:
        server = Server(quick_settings())
        await server.start()
        return Rig(server, grpc.aio.insecure_channel(server.address))

    async def stop(running: Rig) -> None:
        await running.channel.close()
        await running.server.stop()

    running = loop.run(start())
    yield running
    loop.run(stop(running))


@given(steps=scripts(), as_sent=st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_script_ends_as_the_model_says_and_keeps_to_the_grammar(
    loop: asyncio.Runner, rig: Rig, steps: list[Step], as_sent: bool
) -> None:
    loop.run(asyncio.wait_for(_play(rig, steps, as_sent=as_sent), 30))


async def _play(rig: Rig, steps: list[Step], *, as_sent: bool) -> None:
    stream = await rig.open(make_config(as_sent=as_sent))
    model = Model()
    last_id = 0
    for step in steps:
        if step.verb == "item":
            last_id += step.id_step
        await _take(stream, step, last_id, model)
    code = await stream.finish(check=Party.SERVER)
    assert (code == "OK") == (model.reason == "")
    assert stream.reason == model.reason
    assert sorted(stream.ended_ids) == sorted(model.ends)
    if as_sent:
        assert stream.ended_ids == sorted(stream.ended_ids)
    for item_id, end in model.ends.items():
        found = stream.outcomes[item_id].reason or "completed"
        assert found == end or (item_id in model.cancelled and found == "CANCELLED")
    assert (await settle(rig.server)).is_idle


async def _take(stream: RawStream, step: Step, last_id: int, model: Model) -> None:
    """Do a step, and write down what must come of it. After a broken rule nothing counts any more."""
    request: Any
    known_ids = sorted(model.ends)
    match step.verb:
        case "item":
            request = make_item(last_id, PICTURES[step.picture], label=step.picture)
            if not model.reason:
                model.ends[last_id] = "completed" if step.picture in ("good", "raw") else step.picture
        case "cancel" | "release" | "wait" if not known_ids:
            return
        case "wait":
            item_id = known_ids[step.choice % len(known_ids)]
            while not model.reason and item_id not in stream.ended_ids:
                assert await stream.read() is not None
            return
        case "cancel":
            item_id = known_ids[step.choice % len(known_ids)]
            request = service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=item_id))
            if not model.reason:
                model.cancelled.add(item_id)
        case "release":
            item_id = known_ids[step.choice % len(known_ids)]
            request = service_pb2.StreamDeferredCpuRequest(release=event_pb2.Release(id=item_id))
        case _:
            model.reason = model.reason or REASONS[step.verb]
            request = _broken(step.verb, last_id)
    await stream.send(request)


def _broken(verb: str, last_id: int) -> Any:
    match verb:
        case "old id":
            return make_item(last_id, PICTURES["good"])
        case "strange id":
            return service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=last_id + 1))
        case "second config":
            return make_config()
        case "foreign":
            foreign = make_item(last_id + 1, PICTURES["good"], path="deferred_cuda")
            return service_pb2.StreamDeferredCpuRequest.FromString(foreign.SerializeToString())
        case _:
            raise AssertionError(f"Expected a broken rule, got {verb}")
