"""Several replicas behind one client: whom streams go to, what each gets, and what becomes of items when one goes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from monopath import AsyncClient, Client, Item, RawImage, Result, Resume, StreamBroken
from monopath._channel import channel_target
from monopath.v1 import event_pb2, service_pb2, service_pb2_grpc
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, map_all
from tests.clients.fake_server import Gate, Script, Servicer, answering, serving
from tests.clients.test_resume import by_content, check_all_once, dying, numbered
from tests.support.processes import ServerProcess
from tests.support.processes import serving as serving_process

ORDERS = pytest.mark.parametrize("order", ["as_completed", "as_sent"])


def counting(counts: list[int], script: Script | None = None) -> Script:
    """Play a script, and count the items that came, one entry a stream."""

    def play(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        counts.append(0)
        place = len(counts) - 1

        def counted() -> Iterator[Any]:
            for request in requests:
                counts[place] += request.HasField("item")
                yield request

        yield from (script or answering(by_content))(counted(), context)

    return play


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("localhost:1", "localhost:1"),
        ("dns:///name:1", "dns:///name:1"),
        (["localhost:1"], "localhost:1"),
        (["127.0.0.1:1", "10.0.0.1:2"], "ipv4:127.0.0.1:1,10.0.0.1:2"),
        (["[::1]:1", "[::2]:2"], "ipv6:[::1]:1,[::2]:2"),
        (["unix:/a/0", "unix:/a/1"], "unix:/a/0,/a/1"),
    ],
)
def test_a_target_is_one_name_or_several_addresses(target: str | list[str], name: str) -> None:
    assert channel_target(target) == name


@pytest.mark.parametrize(
    "target",
    [[], ["127.0.0.1:1", "[::1]:1"], ["127.0.0.1:1", "name:1"], ["127.0.0.1", "127.0.0.2"], ["unix:/a", "127.0.0.1:1"]],
)
def test_addresses_that_cannot_go_together_are_refused(target: list[str]) -> None:
    with pytest.raises(ValueError, match="Expected several addresses"):
        Client(target)


@KINDS
@ORDERS
@pytest.mark.parametrize("streams", [2, 5])
def test_several_streams_give_each_result_once(kind: str, order: str, streams: int) -> None:
    counts: list[int] = []
    seen: dict[str, Any] = {}
    with serving(Servicer(counting(counts))) as address:
        results = map_all(kind, address, numbered(80), order=order, streams=streams, seen=seen)
    check_all_once(results, 80, in_order=order == "as_sent")
    assert len(counts) == streams
    assert sum(counts) == seen["summary"].completed_count == 80


@KINDS
@ORDERS
def test_deaths_of_several_streams_lose_and_repeat_nothing(kind: str, order: str) -> None:
    scripts = [dying(index % 4, half_an_item=index % 2 == 0) for index in range(12)]
    resume = Resume(max_attempt_count=20, first_wait_seconds=0.01, max_wait_seconds=0.05)
    with serving(Servicer(*scripts, answering(by_content))) as address:
        results = map_all(kind, address, numbered(100), order=order, streams=3, resume=resume)
    check_all_once(results, 100, in_order=order == "as_sent")


class Replica:
    """A scripted server that can be asked for its capabilities, and remembers that it was."""

    def __init__(self, script: Script, *, ready: bool | None = None) -> None:
        self.counts: list[int] = []
        self.asked = 0
        self.health = health.HealthServicer() if ready is not None else None
        self.set_ready(ready is True)
        self._servicer = Servicer(counting(self.counts, script), unary=self._answer)

    def set_ready(self, is_ready: bool) -> None:
        """Say whether new streams are welcome, where it says anything."""
        status = health_pb2.HealthCheckResponse
        if self.health is not None:
            name = "monopath.v1.PreprocessingService"
            self.health.set(name, status.SERVING if is_ready else status.NOT_SERVING)

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        with futures.ThreadPoolExecutor(16) as pool:
            server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
            service_pb2_grpc.add_PreprocessingServiceServicer_to_server(self._servicer, server)
            if self.health is not None:
                health_pb2_grpc.add_HealthServicer_to_server(self.health, server)
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            try:
                yield f"127.0.0.1:{port}"
            finally:
                server.stop(0).wait(30)

    def _answer(self, _request: Any, _context: Any) -> Any:
        self.asked += 1
        return service_pb2.GetCapabilitiesResponse()


async def _warm_up(client: AsyncClient, reached: Callable[[], bool]) -> None:
    """Call until the connections stand: streams that are opened before go to the first one that does."""
    async with asyncio.timeout(30):
        while not reached():
            await client.capabilities(timeout_seconds=10)


@pytest.mark.asyncio
async def test_streams_go_to_the_replicas_in_turn() -> None:
    replicas = [Replica(answering(by_content)) for _ in range(3)]
    with contextlib.ExitStack() as stack:
        target = [stack.enter_context(replica.serving()) for replica in replicas]
        async with AsyncClient(target) as client:
            await _warm_up(client, lambda: all(replica.asked for replica in replicas))
            async with client.deferred_cpu(**ARGUMENTS) as stream:
                results = [result async for result in stream.map(numbered(60), streams=6)]
    check_all_once(results, 60, in_order=False)
    assert [len(replica.counts) for replica in replicas] == [2, 2, 2]


@pytest.mark.asyncio
async def test_a_slow_replica_gets_fewer_items() -> None:
    nearly_done = Gate()

    def slow_answer(item: Any) -> list[Any]:
        nearly_done.wait()
        return by_content(item)

    def fast_answer(item: Any) -> list[Any]:
        if sum(fast.counts) >= 80:
            nearly_done.open()
        return by_content(item)

    slow = Replica(answering(slow_answer, limits=_limits(64)))
    fast = Replica(answering(fast_answer, limits=_limits(64)))
    with slow.serving() as slow_address, fast.serving() as fast_address:
        async with AsyncClient([slow_address, fast_address]) as client:
            await _warm_up(client, lambda: bool(slow.asked and fast.asked))
            async with client.deferred_cpu(**ARGUMENTS) as stream:
                results = [result async for result in stream.map(numbered(100), streams=2)]
    check_all_once(results, 100, in_order=False)
    assert len(slow.counts) == len(fast.counts) == 1
    # Its credit of 8, and what it pulls once it is fast too.
    assert 8 <= sum(slow.counts) <= 20


@pytest.mark.asyncio
@pytest.mark.parametrize("check_health", [None, False])
async def test_a_replica_that_is_not_ready_gets_no_streams_where_health_is_checked(check_health: bool | None) -> None:
    ready, unready = (Replica(answering(by_content), ready=is_ready) for is_ready in (True, False))
    with ready.serving() as ready_address, unready.serving() as unready_address:
        async with AsyncClient([ready_address, unready_address], check_health=check_health) as client:
            await _warm_up(client, lambda: ready.asked > 20)
            expected_unready = 0 if check_health is None else unready.asked
            assert unready.asked == expected_unready
            if check_health is None:
                unready.set_ready(True)
                await _warm_up(client, lambda: unready.asked > 0)
            assert unready.asked > 0


@KINDS
def test_an_address_where_nobody_listens_does_no_harm(kind: str) -> None:
    with socket.socket() as taken, serving(Servicer(answering(by_content))) as address:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        check_all_once(map_all(kind, [nobody, address], numbered(20), streams=2), 20, in_order=False)


@KINDS
@pytest.mark.parametrize("streams", [1, 3])
def test_leaving_a_map_early_leaves_the_stream_usable(kind: str, streams: int) -> None:
    async def run_async(address: str) -> list[Any]:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            async with contextlib.aclosing(stream.map(numbered(50), streams=streams)) as results:
                async for _result in results:
                    break
            return [result.label async for result in stream.map(labelled, streams=streams)]

    def run_sync(address: str) -> list[Any]:
        with Client(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            for _result in stream.map(numbered(50), streams=streams):
                break
            return [result.label for result in stream.map(labelled, streams=streams)]

    labelled = [Item(b"\x01", label=str(index)) for index in range(30)]
    before = set(threading.enumerate())
    with serving(Servicer(answering(by_content))) as address:
        labels = run_sync(address) if kind == "sync" else asyncio.run(asyncio.wait_for(run_async(address), 60))
    assert sorted(labels, key=int) == [str(index) for index in range(30)]
    left = {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("monopath")}
    assert not left


@KINDS
def test_an_error_that_no_stream_can_mend_ends_a_map_over_several(kind: str) -> None:
    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        next(requests)
        context.set_trailing_metadata(wire.details(3, "no", wire.error_info("ITEM_ID_INVALID")))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")

    with serving(Servicer(script)) as address, pytest.raises(StreamBroken) as caught:
        map_all(kind, address, numbered(20), streams=3)
    assert caught.value.reason == "ITEM_ID_INVALID"


def _limits(item_count: int) -> Any:
    limits = event_pb2.StreamLimits()
    limits.CopyFrom(wire.LIMITS)
    limits.max_unfinished_items = item_count
    return limits


PIXELS = np.random.default_rng(3).integers(0, 256, (300, 400, 3), dtype=np.uint8)


def _images(count: int) -> list[Item]:
    """Each of its own size, so that a result shows whose it is."""
    return [Item(RawImage(PIXELS[: 100 + index], "RGB8"), label=str(100 + index)) for index in range(count)]


def _check_real(results: list[Result[Any]], count: int) -> None:
    assert [result.id for result in sorted(results, key=lambda result: result.id)] == list(range(1, count + 1))
    for result in results:
        result.raise_for_error()
        assert str(result.plan.original_size.height_px) == result.label == str(99 + result.id)


def _server(address: str = "127.0.0.1:0") -> contextlib.AbstractContextManager[ServerProcess]:
    return serving_process("--address", address, "--cuda", "off", "--workers", "1", "--grace", "10")


@pytest.fixture(scope="module")
def survivor() -> Iterator[ServerProcess]:
    """The server that is not killed, for all tests: each start takes seconds."""
    with _server() as server:
        yield server
        assert server.stop().exit_code == 0


@KINDS
@pytest.mark.parametrize("streams", [1, 4])
def test_a_killed_server_costs_no_result(kind: str, streams: int, survivor: ServerProcess) -> None:
    """SIGKILL in the middle of 100 items: 100 results, each once."""
    with _server() as killed:
        results: list[Result[Any]] = []

        def take(result: Result[Any]) -> None:
            results.append(result)
            if len(results) == 20:
                killed.send_signal(signal.SIGKILL)

        _map_real(kind, [killed.address, survivor.address], _images(100), take, streams=streams)
        _check_real(results, 100)


# Each client and each count of streams once: what they share is one core, and each restart takes ten seconds.
@pytest.mark.parametrize(("kind", "streams"), [("sync", 4), ("asyncio", 1)])
def test_a_rolling_restart_loses_and_repeats_nothing(kind: str, streams: int) -> None:
    """SIGTERM to each of two servers in turn while items flow, with a new process in the place of the first."""
    results: list[Result[Any]] = []
    exit_codes: list[int] = []
    restarted = threading.Event()
    flowing = Gate()

    def images() -> Iterator[Item]:
        """As many as it takes, and some more."""
        endless = itertools.cycle(_images(150))
        for index, item in enumerate(endless):
            if restarted.is_set() and index > 150:
                return
            yield item

    def take(result: Result[Any]) -> None:
        results.append(result)
        if len(results) == 30:
            flowing.open()

    def restart() -> None:
        try:
            flowing.wait()
            exit_codes.append(servers[0].stop().exit_code)
            replacement = stack.enter_context(_server(servers[0].address))
            exit_codes.append(servers[1].stop().exit_code)
            restarted.set()
            over.wait()
            exit_codes.append(replacement.stop().exit_code)
        finally:
            restarted.set()

    over = Gate()
    with _server() as first, _server() as second, contextlib.ExitStack() as stack:
        servers = [first, second]
        restarting = threading.Thread(target=restart)
        restarting.start()
        try:
            _map_real(kind, [server.address for server in servers], images(), take, streams=streams)
        finally:
            over.open()
            restarting.join(60)
        assert exit_codes == [0, 0, 0]
    assert sorted(result.id for result in results) == list(range(1, len(results) + 1))
    for result in results:
        result.raise_for_error()
        assert str(result.plan.original_size.height_px) == result.label == str(100 + (result.id - 1) % 150)


def _map_real(
    kind: str, target: list[str], images: Iterable[Item], take: Callable[[Result[Any]], None], *, streams: int
) -> None:
    def run_sync() -> None:
        with Client(target) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            for result in stream.map(images, streams=streams):
                take(result)

    async def run_async() -> None:
        async with AsyncClient(target) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            async for result in stream.map(images, streams=streams):
                take(result)

    if kind == "sync":
        run_sync()
    else:
        asyncio.run(asyncio.wait_for(run_async(), 60))
