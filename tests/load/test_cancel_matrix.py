"""Who ends an item or its stream, and when in the item's life: nothing stays behind, and others are untouched."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from monopath.v1 import event_pb2, service_pb2, service_pb2_grpc
from monopath_server.app import Server
from monopath_server.engine import host, images
from monopath_server.engine.images import PlannedImage, decode_planned, plan_item
from tests.support.footprint import settle, until
from tests.support.grammar import Party
from tests.support.server import quick_settings
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, raw_pixels, running_rig

SMALL = encoded(png(photo(50, 40)))
LARGE = raw_pixels(bytes(1000 * 1000 * 3), 1000, 1000)
"""Its features are 12 MB: more than is ever on the wire unread."""
VICTIM = 7
GRACE_SECONDS = 0.1
DEADLINE_SECONDS = 0.5


@dataclass
class Scene:
    """A server with one worker, a stream of the victim, and what holds the victim where it is."""

    server: Server
    channel: grpc.aio.Channel
    stream: RawStream
    hold: Hold


class Hold:
    """Stops chosen steps of chosen items until it is let go."""

    def __init__(self) -> None:
        self.planning_of: set[int] = set()
        self.decoding_of: set[int] = set()
        self.reached: set[tuple[str, int]] = set()
        self.decoded_ids: list[int] = []
        self._free = threading.Event()

    def let_go(self) -> None:
        """Let every step go on."""
        self._free.set()

    def plan(self, item: Any, *arguments: Any, **options: Any) -> Any:
        if item.id in self.planning_of:
            self._wait("plan", item.id)
        return plan_item(item, *arguments, **options)

    def decode(self, planned: PlannedImage, *arguments: Any) -> Any:
        self.decoded_ids.append(planned.item.id)
        if planned.item.id in self.decoding_of:
            self._wait("decode", planned.item.id)
        return decode_planned(planned, *arguments)

    def _wait(self, step: str, item_id: int) -> None:
        self.reached.add((step, item_id))
        assert self._free.wait(30)


class DeadlineStream(RawStream):
    """A stream that its client gives a bounded time."""

    def __init__(self, channel: grpc.aio.Channel, timeout_seconds: float) -> None:
        super().__init__(channel, "deferred_cpu")
        self.call.cancel()  # the one without a deadline: nothing was sent on it
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(channel)
        self.call = stub.StreamDeferredCpu(timeout=timeout_seconds)


# ---- when: each brings the victim to its moment


async def while_it_is_planned(scene: Scene) -> None:
    """Its header is being read."""
    scene.hold.planning_of.add(VICTIM)
    await scene.stream.send(make_item(VICTIM, SMALL))
    await until(lambda: ("plan", VICTIM) in scene.hold.reached, "the victim's planning")


async def while_it_waits(scene: Scene) -> None:
    """The only worker has another item."""
    scene.hold.decoding_of.add(1)
    await scene.stream.send(make_item(1, SMALL), make_item(VICTIM, SMALL))
    await scene.stream.read_until("plan", item_id=VICTIM)
    await until(lambda: ("decode", 1) in scene.hold.reached, "the other item's turn")


async def while_it_is_computed(scene: Scene) -> None:
    """A worker has it."""
    scene.hold.decoding_of.add(VICTIM)
    await scene.stream.send(make_item(VICTIM, SMALL))
    await until(lambda: ("decode", VICTIM) in scene.hold.reached, "the victim's turn")


async def while_its_features_are_sent(scene: Scene) -> None:
    """Some of its features were read, the rest waits for the client."""
    await scene.stream.send(make_item(VICTIM, LARGE))
    await scene.stream.read_until("features", item_id=VICTIM)


async def while_it_awaits_its_turn(scene: Scene) -> None:
    """It is complete, and an item sent before it is not; the stream is in order."""
    scene.hold.planning_of.add(1)
    await scene.stream.send(make_item(1, SMALL), make_item(VICTIM, SMALL))
    await scene.stream.read_until("plan", item_id=VICTIM)
    await until(lambda: scene.server.engines.buffers.held_bytes > 0, "the victim's features")


# ---- who: each ends the victim; what it returns is how its stream must end


async def the_client_cancels_the_item(scene: Scene) -> str:
    await scene.stream.send(service_pb2.StreamDeferredCpuRequest(cancellation=event_pb2.Cancellation(id=VICTIM)))
    return "OK"


async def the_client_cancels_the_stream(scene: Scene) -> str:
    scene.stream.call.cancel()
    return "CANCELLED"


async def the_clients_connection_goes(scene: Scene) -> str:
    await scene.channel.close()
    return "CANCELLED"


async def the_clients_deadline_passes(scene: Scene) -> str:
    # The server's own clock; the client's call is not done before it has read what was sent.
    await until(lambda: len(scene.server._servicer._sessions) == 1, "the deadline")
    return "DEADLINE_EXCEEDED"


async def the_client_breaks_a_rule(scene: Scene) -> str:
    await scene.stream.send(make_item(VICTIM, SMALL))
    return "INVALID_ARGUMENT"


async def the_servers_grace_ends(scene: Scene) -> str:
    # The stop waits for the server's threads, so what holds them lets go by itself once the grace is over.
    letting_go = threading.Timer(3 * GRACE_SECONDS, scene.hold.let_go)
    letting_go.start()
    await scene.server.stop()
    letting_go.join()
    return "UNAVAILABLE"


WHEN: tuple[Callable[[Scene], Awaitable[None]], ...] = (
    while_it_is_planned,
    while_it_waits,
    while_it_is_computed,
    while_its_features_are_sent,
    while_it_awaits_its_turn,
)
WHO: tuple[Callable[[Scene], Awaitable[str]], ...] = (
    the_client_cancels_the_item,
    the_client_cancels_the_stream,
    the_clients_connection_goes,
    the_clients_deadline_passes,
    the_client_breaks_a_rule,
    the_servers_grace_ends,
)


@pytest.mark.parametrize("when", WHEN, ids=lambda step: step.__name__)
@pytest.mark.parametrize("who", WHO, ids=lambda step: step.__name__)
@pytest.mark.asyncio
async def test_nothing_stays_behind(
    who: Callable[[Scene], Awaitable[str]], when: Callable[[Scene], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold()
    monkeypatch.setattr(images, "plan_item", hold.plan)
    monkeypatch.setattr(host, "decode_planned", hold.decode)
    as_sent = when is while_it_awaits_its_turn
    deadline = DEADLINE_SECONDS if who is the_clients_deadline_passes else None
    async with running_rig(quick_settings(worker_count=1, grace_seconds=GRACE_SECONDS)) as rig:
        neighbour = await rig.open()
        tasks_before = len(asyncio.all_tasks())
        async with grpc.aio.insecure_channel(rig.server.address) as channel:
            stream = RawStream(channel, "deferred_cpu") if deadline is None else DeadlineStream(channel, deadline)
            await stream.send(make_config(as_sent=as_sent))
            await stream.read_until("ready")
            scene = Scene(rig.server, channel, stream, hold)
            await when(scene)
            # The server's stop waits for its threads, so what holds them must end by itself.
            letting_go = (
                asyncio.get_running_loop().call_later(0.5, hold.let_go) if who is the_servers_grace_ends else None
            )
            expected = await who(scene)
            hold.let_go()
            assert await _end_of(stream, expected) == expected
            if letting_go is not None:
                letting_go.cancel()
                assert (await settle(rig.server)).is_idle
                return
            _check_victim(stream, expected)
        # The neighbour was open all the time, and gets what it would have got anyhow.
        await neighbour.send(make_item(100, SMALL))
        assert await neighbour.finish() == "OK"
        assert neighbour.outcomes[100].completion is not None
        found = await settle(rig.server)
        assert found.is_idle
        await until(lambda: len(asyncio.all_tasks()) <= tasks_before, "no task more than before")


async def _end_of(stream: RawStream, expected: str) -> str:
    """Read to the end of the stream; give its status."""
    half_closes = expected in ("OK", "INVALID_ARGUMENT")
    with contextlib.suppress(asyncio.CancelledError):
        return await stream.finish(half_close=half_closes, check=Party.SERVER, grammar=half_closes)
    code: grpc.StatusCode = await stream.call.code()
    return code.name


def _check_victim(stream: RawStream, expected: str) -> None:
    """One end at most, and exactly one where the stream went on."""
    ends = stream.ended_ids.count(VICTIM)
    if expected in ("OK", "INVALID_ARGUMENT"):
        assert ends == 1
    else:
        assert ends <= 1
    if expected == "OK":
        assert stream.outcomes[VICTIM].reason in ("", "CANCELLED")


@pytest.mark.asyncio
async def test_items_that_still_wait_when_their_stream_is_cancelled_are_never_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hold = Hold()
    monkeypatch.setattr(host, "decode_planned", hold.decode)
    async with running_rig(quick_settings(worker_count=1)) as rig:
        stream = await rig.open()
        scene = Scene(rig.server, rig.channel, stream, hold)
        await while_it_waits(scene)
        stream.call.cancel()
        assert (await settle(rig.server)).is_idle
        hold.let_go()
        await rig.run([make_item(3, SMALL)])
    assert VICTIM not in hold.decoded_ids
