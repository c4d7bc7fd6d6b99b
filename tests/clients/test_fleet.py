"""A fleet of scripted servers: one request shared out over several clients, one result for each image."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
import pytest

from monopath import (
    AsyncClient,
    AsyncFleet,
    Client,
    ConnectionFailed,
    Fleet,
    Item,
    PlanEvent,
    Resume,
    StreamClosed,
    StreamMoved,
    StreamRefused,
)
from monopath.v1 import event_pb2
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, QUICK
from tests.clients.fake_server import Gate, Script, Servicer, answering, serving
from tests.clients.test_resume import by_content, check_all_once, dying, numbered, refusing

ORDERS = pytest.mark.parametrize("order", ["as_completed", "as_sent"])
LIMITS = event_pb2.StreamLimits()
LIMITS.CopyFrom(wire.LIMITS)
LIMITS.max_unfinished_items = 64


def fleet_map(
    kind: str,
    addresses: Iterable[str],
    images: Iterable[Any],
    *,
    take: Callable[[Any], None] = lambda _result: None,
    on_plan: Callable[[PlanEvent], None] | None = None,
    seen: dict[str, Any] | None = None,
    resume: Resume = QUICK,
    max_items_per_stream: int = 8,
    **arguments: Any,
) -> list[Any]:
    """Map the images over a fleet with one client for each address. `seen` receives ready and summary."""
    arguments = {**ARGUMENTS, **arguments}
    options: dict[str, Any] = {
        "on_plan": on_plan,
        "resume": resume,
        "max_items_per_stream": max_items_per_stream,
    }
    found = {} if seen is None else seen
    results = []

    def run_sync() -> None:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(address)) for address in addresses]
            fleet = Fleet([client.deferred_cpu(**arguments) for client in clients])
            for result in fleet.map(images, **options):
                results.append(result)
                take(result)
            found.update(ready=fleet.ready, summary=fleet.summary)

    async def run_async() -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(AsyncClient(address)) for address in addresses]
            fleet = AsyncFleet([client.deferred_cpu(**arguments) for client in clients])
            async for result in fleet.map(images, **options):
                results.append(result)
                take(result)
            found.update(ready=fleet.ready, summary=fleet.summary)

    if kind == "sync":
        run_sync()
    else:
        asyncio.run(asyncio.wait_for(run_async(), 60))
    return results


@contextlib.contextmanager
def serving_all(*servers: Script | Servicer) -> Iterator[list[str]]:
    """Serve each script, or servicer, on a port of its own."""
    servicers = [server if isinstance(server, Servicer) else Servicer(server) for server in servers]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(serving(servicer)) for servicer in servicers]


def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def threads_of_ours() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("monopath")}


@KINDS
@ORDERS
def test_each_image_has_one_result_whichever_server_took_it(kind: str, order: str) -> None:
    counts = [0, 0, 0]

    def script(place: int) -> Script:
        def answer(item: Any) -> list[Any]:
            counts[place] += 1
            return by_content(item)

        return answering(answer)

    seen: dict[str, Any] = {}
    with serving_all(*(script(place) for place in range(3))) as addresses:
        results = fleet_map(kind, addresses, numbered(200), order=order, seen=seen)
    check_all_once(results, 200, in_order=order == "as_sent")
    assert sum(counts) == seen["summary"].completed_count == 200
    assert all(counts)
    assert seen["ready"].config_sha256 == wire.CONFIG_SHA256


@KINDS
def test_few_images_are_shared_out_evenly(kind: str) -> None:
    """Each server answers its image only when every other one has one too."""
    together = threading.Barrier(3)

    def answer(item: Any) -> list[Any]:
        together.wait(30)
        return by_content(item)

    with serving_all(*(answering(answer, limits=LIMITS) for _ in range(3))) as addresses:
        check_all_once(fleet_map(kind, addresses, numbered(3)), 3, in_order=False)


@KINDS
def test_a_slow_server_takes_fewer(kind: str) -> None:
    nearly_done = Gate()
    counts = {"slow": 0, "fast": 0}

    def slow(item: Any) -> list[Any]:
        nearly_done.wait()
        counts["slow"] += 1
        return by_content(item)

    def fast(item: Any) -> list[Any]:
        counts["fast"] += 1
        if counts["fast"] >= 90:
            nearly_done.open()
        return by_content(item)

    with serving_all(answering(slow, limits=LIMITS), answering(fast, limits=LIMITS)) as addresses:
        results = fleet_map(kind, addresses, numbered(100), max_items_per_stream=5)
    check_all_once(results, 100, in_order=False)
    assert 5 <= counts["slow"] <= 10


@KINDS
@ORDERS
def test_what_dying_servers_had_goes_to_the_others(kind: str, order: str) -> None:
    deaths = [
        Servicer(*(dying(3 + place + at, half_an_item=at % 2 == 0) for at in range(4)), answering(by_content))
        for place in range(2)
    ]
    resume = Resume(max_attempt_count=20, first_wait_seconds=0.01, max_wait_seconds=0.05)
    with serving_all(*deaths, answering(by_content)) as addresses:
        results = fleet_map(kind, addresses, numbered(100), order=order, resume=resume)
    check_all_once(results, 100, in_order=order == "as_sent")


@KINDS
@pytest.mark.parametrize("place", [0, 1])
def test_a_server_that_is_not_reached_does_no_harm(kind: str, place: int) -> None:
    with serving_all(answering(by_content)) as addresses:
        addresses.insert(place, nobody())
        check_all_once(fleet_map(kind, addresses, numbered(30)), 30, in_order=False)


@KINDS
def test_a_server_that_takes_connections_and_says_nothing_does_no_harm(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, serving_all(answering(by_content)) as addresses:
        addresses.insert(0, f"127.0.0.1:{silent.getsockname()[1]}")
        check_all_once(fleet_map(kind, addresses, numbered(30)), 30, in_order=False)


@KINDS
def test_each_plan_is_told_once(kind: str) -> None:
    planned: list[PlanEvent] = []
    mortal = Servicer(dying(5, half_an_item=True), answering(by_content))
    with serving_all(mortal, answering(by_content)) as addresses:
        fleet_map(kind, addresses, numbered(40), on_plan=planned.append)
    assert sorted(event.id for event in planned) == list(range(1, 41))


@KINDS
def test_closing_a_client_ends_the_fleets_map(kind: str) -> None:
    async def run_async(addresses: list[str]) -> None:
        async with AsyncClient(addresses[0]) as first, AsyncClient(addresses[1]) as second:
            fleet = AsyncFleet([client.deferred_cpu(**ARGUMENTS) for client in (first, second)])
            async with contextlib.aclosing(fleet.map(itertools.repeat(b"\x01"))) as results:
                await anext(results)
                await first.close()
                with pytest.raises(StreamClosed):
                    async for _result in results:
                        pass

    def run_sync(addresses: list[str]) -> None:
        with Client(addresses[0]) as first, Client(addresses[1]) as second:
            fleet = Fleet([client.deferred_cpu(**ARGUMENTS) for client in (first, second)])
            results = fleet.map(itertools.repeat(b"\x01"))
            next(results)
            first.close()
            with pytest.raises(StreamClosed):
                for _result in results:
                    pass

    before = threads_of_ours()
    with serving_all(*(answering(by_content) for _ in range(2))) as addresses:
        if kind == "sync":
            run_sync(addresses)
        else:
            asyncio.run(asyncio.wait_for(run_async(addresses), 60))
    assert threads_of_ours() == before


@KINDS
def test_a_fleet_that_is_not_reached_at_all_says_so(kind: str) -> None:
    with pytest.raises(ConnectionFailed):
        fleet_map(kind, [nobody(), nobody()], numbered(1))


@KINDS
def test_a_fleet_of_one_is_a_stream(kind: str) -> None:
    seen: dict[str, Any] = {}
    with serving_all(answering(by_content)) as addresses:
        check_all_once(fleet_map(kind, addresses, numbered(30), seen=seen), 30, in_order=False)
    assert seen["summary"].completed_count == 30


@KINDS
def test_a_server_with_another_config_is_no_part_of_a_fleet(kind: str) -> None:
    scripts = [answering(by_content), answering(by_content, config_sha256=b"d" * 32)]
    with serving_all(*scripts) as addresses, pytest.raises(StreamMoved, match="Expected the config"):
        fleet_map(kind, addresses, itertools.repeat(b"\x01"))


@KINDS
def test_a_refused_stream_is_told_and_not_worked_around(kind: str) -> None:
    refused = refusing(grpc.StatusCode.FAILED_PRECONDITION, "TRANSPORT_UNAVAILABLE")
    with serving_all(answering(by_content), refused) as addresses, pytest.raises(StreamRefused) as caught:
        fleet_map(kind, addresses, itertools.repeat(b"\x01"))
    assert caught.value.reason == "TRANSPORT_UNAVAILABLE"


@KINDS
def test_a_caller_that_takes_slowly_bounds_what_is_read_from_its_images(kind: str) -> None:
    read_count = 0
    leads: list[int] = []

    def images() -> Iterator[bytes]:
        nonlocal read_count
        for read_count in range(1, 151):  # noqa: B007  # read below
            yield b"\x01"

    def take(_result: Any) -> None:
        leads.append(read_count - len(leads))

    with serving_all(*(answering(by_content, limits=LIMITS) for _ in range(3))) as addresses:
        assert len(fleet_map(kind, addresses, images(), take=take)) == 150
    # In flight on three streams, one that waits for room, and as many results that were not taken yet.
    assert max(leads) <= 2 * (3 * 8 + 1)


@KINDS
def test_leaving_early_leaves_nothing_behind_and_the_fleet_usable(kind: str) -> None:
    before = threads_of_ours()
    servicers = [Servicer(answering(by_content)) for _ in range(2)]

    async def run_async(addresses: list[str]) -> list[Any]:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(AsyncClient(address)) for address in addresses]
            fleet = AsyncFleet([client.deferred_cpu(**ARGUMENTS) for client in clients])
            async with contextlib.aclosing(fleet.map(itertools.repeat(b"\x01"))) as results:
                await anext(results)
            await asyncio.to_thread(both_ended)
            tasks = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
            assert not {task for task in tasks if "AsyncMapping" in repr(task)}
            return [result.label async for result in fleet.map(labelled)]

    def run_sync(addresses: list[str]) -> list[Any]:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(address)) for address in addresses]
            fleet = Fleet([client.deferred_cpu(**ARGUMENTS) for client in clients])
            results = fleet.map(itertools.repeat(b"\x01"))
            next(results)
            results.close()
            both_ended()
            assert threads_of_ours() == before
            return [result.label for result in fleet.map(labelled)]

    def both_ended() -> None:
        for servicer in servicers:
            servicer.ended.get(timeout=30)

    labelled = [Item(b"\x01", label=str(index)) for index in range(30)]
    with serving_all(*servicers) as addresses:
        labels = run_sync(addresses) if kind == "sync" else asyncio.run(asyncio.wait_for(run_async(addresses), 60))
        both_ended()
    assert sorted(labels, key=int) == [str(index) for index in range(30)]
    assert threads_of_ours() == before


@KINDS
def test_an_image_that_cannot_be_had_ends_the_map_and_its_streams(kind: str) -> None:
    def images() -> Iterator[bytes]:
        yield b"\x01"
        raise OSError("no such image")

    servicers = [Servicer(answering(by_content)) for _ in range(2)]
    with serving_all(*servicers) as addresses:
        with pytest.raises(OSError, match="no such image"):
            fleet_map(kind, addresses, images())
        for servicer in servicers:
            servicer.ended.get(timeout=30)


@KINDS
def test_streams_that_do_not_go_together_are_refused(kind: str) -> None:
    async def run_async() -> None:
        async with AsyncClient("localhost:1") as client:
            check(client, AsyncFleet)

    def check(client: Any, fleet: Any) -> None:
        one = client.deferred_cpu(**ARGUMENTS)
        others = [
            client.local(**ARGUMENTS),
            client.deferred_cpu(**{**ARGUMENTS, "data_type": "uint8"}),
            client.deferred_cpu(**ARGUMENTS, order="as_sent"),
        ]
        for other in others:
            with pytest.raises(ValueError, match="Expected streams of one path, element type and order"):
                fleet([one, other])
        with pytest.raises(ValueError, match="Expected at least one stream"):
            fleet([])

    if kind == "sync":
        with Client("localhost:1") as client:
            check(client, Fleet)
    else:
        asyncio.run(run_async())


def test_a_fleet_says_what_is_missing() -> None:
    with Client("localhost:1") as client:
        fleet = Fleet([client.deferred_cpu(**ARGUMENTS)])
        with pytest.raises(StreamClosed, match="has opened a stream"):
            _ = fleet.ready
        with pytest.raises(ValueError, match="at least 1 item"):
            next(fleet.map([b"a"], max_items_per_stream=0))
        assert fleet.summary is None
    with pytest.raises(StreamClosed, match="closed"):
        next(fleet.map([b"a"]))
