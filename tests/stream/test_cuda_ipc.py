"""Features that stay on the device, over a real stream: interpreted kernels, and a GPU that is only played."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import torch

from monopath.cuda_memory import ClientCudaMemory, CudaError, boot_id, pid_namespace
from monopath.v1 import config_pb2, event_pb2, service_pb2, tensor_pb2
from monopath_server.engine import engines
from monopath_server.engine.devices import Devices
from monopath_server.settings import DeviceMode
from tests.support.fake_cuda import FakeCudaDriver, FakeMachine
from tests.support.server import quick_settings
from tests.support.stream import PathName, RawStream, Rig, encoded, make_config, make_item, photo, png, running_rig

BLOCK = 2 * 1024 * 1024
DEVICE = "interpreter"
IMAGE = encoded(png(photo(60, 40)))


class GpuRig:
    """A server and a client, as processes that share one played GPU."""

    def __init__(self, rig: Rig, machine: FakeMachine) -> None:
        self.rig = rig
        self.machine = machine
        self.driver = FakeCudaDriver(machine)
        """The client's."""
        self.memory = ClientCudaMemory(self.driver)

    def config(self, path: PathName = "deferred_cuda", **changes: Any) -> Any:
        """The request that opens a stream for this client, or one who says other things of itself."""
        claims = self.memory.transport_fields()
        fields = {
            "boot_id": claims.boot_id,
            "pid_namespace": claims.pid_namespace,
            "device_uuids": claims.device_uuids,
            **changes,
        }
        config = make_config(path, data_type=tensor_pb2.DATA_TYPE_BFLOAT16)
        config.config.output.cuda_ipc.CopyFrom(config_pb2.CudaIpcTransport(**fields))
        return config

    async def pool(self) -> Any:
        """The server's memory."""
        return await self.rig.server.engines._devices.memory(DEVICE)


@contextlib.asynccontextmanager
async def running_gpu_rig(
    monkeypatch: pytest.MonkeyPatch, max_shared_bytes: int = 16 * BLOCK, **changes: object
) -> AsyncIterator[GpuRig]:
    machine = FakeMachine(DEVICE)
    server_driver = FakeCudaDriver(machine)

    def make_devices(settings: Any, on_health: Any, **arguments: Any) -> Devices:
        arguments |= {"max_shared_bytes": max_shared_bytes, "make_driver": lambda: server_driver}
        return Devices(settings, on_health, **arguments)

    monkeypatch.setattr(engines, "Devices", make_devices)
    async with running_rig(quick_settings(cuda=DeviceMode.INTERPRETER, **changes)) as rig:
        gpu = GpuRig(rig, machine)
        yield gpu
        await asyncio.to_thread(gpu.memory.close)
    assert machine.misuses == []


def item(item_id: int) -> Any:
    return make_item(item_id, IMAGE, path="deferred_cuda")


def release(item_id: int) -> Any:
    return service_pb2.StreamDeferredCudaRequest(release=event_pb2.Release(id=item_id))


async def refusal(rig: Rig, config: Any, path: PathName) -> str:
    """Open a stream that is refused for its transport; what the client is told."""
    stream = RawStream(rig.channel, path)
    await stream.send(config)
    assert await stream.finish() == "FAILED_PRECONDITION"
    assert stream.reason == "TRANSPORT_UNAVAILABLE"
    assert stream.status is not None
    return str(stream.status.message)


async def inline_features(rig: Rig) -> bytes:
    config = make_config("deferred_cuda", data_type=tensor_pb2.DATA_TYPE_BFLOAT16)
    stream = await rig.run([item(1)], config, "deferred_cuda")
    return bytes(stream.outcomes[1].data)


@pytest.mark.asyncio
async def test_a_tensor_on_the_device_has_the_bytes_that_come_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_gpu_rig(monkeypatch) as gpu:
        stream = await gpu.rig.open(gpu.config(), "deferred_cuda")
        assert stream.ready is not None
        assert stream.ready.device == DEVICE
        assert stream.ready.cuda_ipc.lease_timeout.seconds > 0
        gpu.memory.check_offer(stream.ready.cuda_ipc)
        await stream.send(item(1), item(2))
        opened = {}
        for _ in range(2):
            message = await stream.read_until("features")
            assert message.WhichOneof("location") == "cuda_ipc"
            plan = stream.outcomes[message.id].plan
            assert plan is not None
            opened[message.id] = gpu.memory.open(
                message.cuda_ipc, plan.plan.features.data_type, tuple(plan.plan.features.shape)
            )
        expected = await inline_features(gpu.rig)
        for tensor, _ in opened.values():
            assert tensor.view(torch.uint8).numpy().tobytes() == expected
        pool = await gpu.pool()
        assert pool.held_bytes == 3 * BLOCK
        for item_id, (_, close) in opened.items():
            closed = asyncio.Event()
            close(functools.partial(asyncio.get_running_loop().call_soon_threadsafe, closed.set))
            await closed.wait()
            await stream.send(release(item_id))
        assert await stream.finish() == "OK"
        assert (pool.held_bytes, pool.idle_bytes, pool.retired_bytes) == (BLOCK, 2 * BLOCK, 0)
        assert stream.summary is not None
        assert stream.summary.sent_bytes == 2 * len(expected)
        assert stream.summary.fallback_count == 0


@pytest.mark.asyncio
async def test_what_is_not_released_outlives_the_stream_and_is_never_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_gpu_rig(monkeypatch) as gpu:
        stream = await gpu.rig.open(gpu.config(), "deferred_cuda")
        await stream.send(item(1))
        message = await stream.read_until("features")
        assert await stream.finish() == "OK"
        pool = await gpu.pool()
        assert pool.retired_bytes == BLOCK
        expected = await inline_features(gpu.rig)
        tensor, close = gpu.memory.open(message.cuda_ipc, tensor_pb2.DATA_TYPE_UINT8, (len(expected),))
        assert tensor.numpy().tobytes() == expected
        close()


@pytest.mark.asyncio
async def test_a_full_device_sends_chunks_and_says_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_gpu_rig(monkeypatch, max_shared_bytes=2 * BLOCK) as gpu:
        stream = await gpu.rig.open(gpu.config(), "deferred_cuda")
        await stream.send(item(1))
        await stream.read_until("completion")
        await stream.send(item(2))
        message = await stream.read_until("features")
        assert message.WhichOneof("location") == "chunk"
        assert await stream.finish() == "OK"
        assert stream.outcomes[2].data == await inline_features(gpu.rig)
        assert stream.summary is not None
        assert stream.summary.fallback_count == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"boot_id": "0"}, f"the server's boot_id {boot_id()}, got 0"),
        ({"pid_namespace": "pid:[1]"}, f"the server's pid_namespace {pid_namespace()}, got pid:[1]"),
        ({"device_uuids": ["GPU-1"]}, "that sees the server's device interpreter, got one that sees GPU-1"),
        ({"boot_id": "", "pid_namespace": "", "device_uuids": []}, "Expected the boot_id of the client, got none"),
    ],
)
@pytest.mark.asyncio
async def test_a_client_elsewhere_is_refused_at_the_opening(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    async with running_gpu_rig(monkeypatch) as gpu:
        assert reason in await refusal(gpu.rig, gpu.config(**changes), "deferred_cuda")


@pytest.mark.asyncio
async def test_a_client_that_cannot_open_the_probe_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_gpu_rig(monkeypatch) as gpu:
        stream = await gpu.rig.open(gpu.config(), "deferred_cuda")
        assert stream.ready is not None
        elsewhere = ClientCudaMemory(FakeCudaDriver(FakeMachine(DEVICE)))
        with pytest.raises(CudaError):
            elsewhere.check_offer(stream.ready.cuda_ipc)
        assert await stream.finish() == "OK"


@pytest.mark.parametrize("path", ["deferred_cpu", "local"])
@pytest.mark.asyncio
async def test_a_path_of_the_cpu_has_no_device_memory(monkeypatch: pytest.MonkeyPatch, path: PathName) -> None:
    async with running_gpu_rig(monkeypatch) as gpu:
        assert "the CPU is no CUDA device" in await refusal(gpu.rig, gpu.config(path), path)
