"""Streams through the shipped proxies: the right pool, large features, readers that stall, cancels, and no replica."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from monopath import AsyncClient, ConnectionFailed
from monopath._channel import ChannelOption, channel_options
from monopath_server.settings import DeviceMode, Settings
from tests.clients.drivers import ARGUMENTS
from tests.clients.fake_server import Servicer, answering, serving
from tests.proxies.proxies import NGINX, Ports, ProxyKind, running_proxy
from tests.support.footprint import until
from tests.support.ports import free_ports
from tests.support.processes import SOURCE_PATHS
from tests.support.server import quick_settings
from tests.support.stream import (
    PathName,
    RawStream,
    Rig,
    encoded,
    make_config,
    make_item,
    photo,
    png,
    preset,
    raw_pixels,
    running_rig,
)

SMALL = encoded(png(photo(50, 40)))
LARGE = raw_pixels(bytes(1200 * 1200 * 3), 1200, 1200)
"""Its features are 17 MB: more than all windows between a server and a client that does not read hold of a stream."""
HUGE = raw_pixels(photo(1700, 1700).tobytes(), 1700, 1700)
"""With Qwen2-VL, which writes each picture twice, 69 MB of float32."""
CPU_ITEMS, CUDA_ITEMS = 50, 60
"""What a stream may hold in either pool: `ready` tells by it which pool answered."""


@dataclass
class Pools:
    """A proxy before a CPU pool of one server and a CUDA pool of another, all in this event loop but the proxy."""

    cpu: Rig
    channel: grpc.aio.Channel
    """To the proxy, with the client's own options."""

    async def open(self, path: PathName = "deferred_cpu", config: object = None) -> RawStream:
        """An open stream through the proxy."""
        stream = RawStream(self.channel, path)
        await stream.send(make_config(path) if config is None else config)
        await stream.read_until("ready")
        return stream


@contextlib.asynccontextmanager
async def running_pools(
    kind: ProxyKind, folder: Path, cuda: DeviceMode = DeviceMode.OFF, options: Sequence[ChannelOption] = ()
) -> AsyncIterator[Pools]:
    ports = Ports.free()
    cpu_settings = _settings(ports.cpu[0], CPU_ITEMS)
    cuda_settings = replace(_settings(ports.cuda, CUDA_ITEMS), cuda=cuda)
    async with (
        running_rig(cpu_settings) as cpu,
        running_rig(cuda_settings),
        running_proxy(kind, ports, folder) as proxy,
        grpc.aio.insecure_channel(proxy.address, channel_options(options)) as channel,
    ):
        yield Pools(cpu, channel)


def _settings(port: int, max_unfinished_items: int) -> Settings:
    return quick_settings(address=f"127.0.0.1:{port}", max_unfinished_items=max_unfinished_items)


@pytest.mark.asyncio
async def test_the_method_decides_which_pool_a_stream_goes_to(kind: ProxyKind, tmp_path: Path) -> None:
    async with running_pools(kind, tmp_path, DeviceMode.INTERPRETER) as pools:
        features = {}
        limits: dict[PathName, int] = {"deferred_cpu": CPU_ITEMS, "deferred_cuda": CUDA_ITEMS}
        for path, limit in limits.items():
            stream = await pools.open(path)
            assert stream.ready is not None
            assert stream.ready.limits.max_unfinished_items == limit
            await stream.send(make_item(1, SMALL, path=path))
            assert await stream.finish() == "OK"
            features[path] = stream.outcomes[1].sha256
        assert features["deferred_cuda"] == features["deferred_cpu"]
        local = await pools.open("local")
        assert local.ready is not None
        assert local.ready.limits.max_unfinished_items == CPU_ITEMS
        assert await local.finish() == "OK"


@pytest.mark.asyncio
async def test_a_pool_without_a_gpu_says_so_through_the_proxy(kind: ProxyKind, tmp_path: Path) -> None:
    async with running_pools(kind, tmp_path) as pools:
        stream = RawStream(pools.channel, "deferred_cuda")
        await stream.send(make_config("deferred_cuda"))
        assert await stream.finish() == "FAILED_PRECONDITION"
        assert stream.reason == "DEVICE_UNAVAILABLE"


@pytest.mark.asyncio
async def test_64_mb_of_features_come_through_one_stream_unchanged(kind: ProxyKind, tmp_path: Path) -> None:
    config = make_config(processor=preset("qwen2-vl"))
    async with running_pools(kind, tmp_path) as pools:
        stream = await pools.open(config=config)
        await stream.send(make_item(1, HUGE))
        assert await stream.finish() == "OK"
        assert len(stream.outcomes[1].data) > 64_000_000
        direct = await pools.cpu.run([make_item(1, HUGE)], config)
        assert stream.outcomes[1].sha256 == direct.outcomes[1].sha256


@pytest.mark.asyncio
async def test_twelve_readers_that_stall_do_not_starve_a_thirteenth(kind: ProxyKind, tmp_path: Path) -> None:
    # On a busy machine the client would take long ways for wide ones, and open windows that hold all features.
    async with running_pools(kind, tmp_path, options=[("grpc.http2.bdp_probe", 0)]) as pools:
        stalled = [await pools.open() for _ in range(12)]
        for stream in stalled:
            await stream.send(make_item(1, LARGE))
            await stream.read_until("plan")
        held = pools.cpu.server.engines.buffers
        await until(lambda: held.held_bytes >= 12 * 8_000_000, "features that nobody reads")
        async with asyncio.timeout(30):
            thirteenth = await pools.open()
            await thirteenth.send(make_item(1, LARGE))
            assert await thirteenth.finish() == "OK"
        # They were held up all the while, and lost nothing.
        assert held.held_bytes >= 12 * 8_000_000
        for stream in stalled:
            assert await stream.finish() == "OK"
            assert stream.outcomes[1].sha256 == thirteenth.outcomes[1].sha256


@pytest.mark.asyncio
async def test_a_cancel_reaches_the_server(kind: ProxyKind, tmp_path: Path) -> None:
    async with running_pools(kind, tmp_path) as pools:
        stream = await pools.open()
        assert pools.cpu.server._servicer._sessions
        stream.call.cancel()
        await until(lambda: not pools.cpu.server._servicer._sessions, "the end of the stream at the server")


@pytest.mark.asyncio
async def test_without_a_replica_a_client_is_told_so_by_a_status(kind: ProxyKind, tmp_path: Path) -> None:
    async with running_proxy(kind, Ports.free(), tmp_path) as proxy, AsyncClient(proxy.address) as client:
        with pytest.raises(ConnectionFailed) as caught:
            async with client.deferred_cpu(**ARGUMENTS):
                pass
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        assert caught.value.message in ("no replica answers", "no healthy upstream")


CLIENT = """
import itertools, sys
from monopath import CallError, Client, Resume

resume = Resume(max_opening_count=4, max_wait_seconds=0.2)
with Client(sys.argv[1]) as client, client.deferred_cpu(preset="kimi-k3", data_type="float32") as stream:
    try:
        for result in stream.map(itertools.repeat(b"image"), streams=4, resume=resume):
            if result.id == 20:
                print("items flow", flush=True)
    except CallError as error:
        # UNAVAILABLE, or INTERNAL where nginx resets the stream before gRPC has read all of the page.
        print("given up" if error.stream_may_resume else repr(error))
"""


@pytest.mark.asyncio
async def test_an_html_page_instead_of_a_status_does_not_end_the_client(tmp_path: Path) -> None:
    """With a retry policy in its channel, which `monopath._channel` has not, gRPC can abort it (grpc#40283)."""
    if NGINX.missing:
        pytest.skip(NGINX.missing)

    def with_html(text: str) -> str:
        assert "error_page 502" in text
        return text.replace("error_page 502", "# error_page 502")

    with contextlib.ExitStack() as server:
        address = server.enter_context(serving(Servicer(answering())))
        [nobody] = free_ports(1)
        ports = Ports.free((int(address.rpartition(":")[2]), nobody))
        async with running_proxy(NGINX, ports, tmp_path, with_html) as proxy:
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", "-c", CLIENT, proxy.address),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PYTHONPATH": SOURCE_PATHS},
            )
            try:
                async with asyncio.timeout(60):
                    assert client.stdout is not None
                    assert await client.stdout.readline() == b"items flow\n"
                    await asyncio.to_thread(server.close)
                    stdout, stderr = await client.communicate()
            finally:
                if client.returncode is None:
                    client.kill()
                    await client.wait()
            assert (client.returncode, stdout, stderr.decode()) == (0, b"given up\n", "")
            assert " 502 " in proxy.log.read_text()
