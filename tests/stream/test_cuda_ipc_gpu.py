"""Features that stay on a real GPU, from a server in a process of its own: `make test-cuda`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import torch

from monopath.cuda_memory import ClientCudaMemory
from monopath.v1 import config_pb2, event_pb2, service_pb2, tensor_pb2
from tests.support.processes import serving
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png

pytestmark = pytest.mark.cuda

IMAGE_COUNT = 8


@contextlib.asynccontextmanager
async def opened(channel: grpc.aio.Channel, config: Any) -> AsyncIterator[RawStream]:
    stream = RawStream(channel, "deferred_cuda")
    await stream.send(config)
    yield stream
    await stream.finish()


def ipc_config(memory: ClientCudaMemory, **changes: Any) -> Any:
    claims = memory.transport_fields()
    fields = {
        "boot_id": claims.boot_id,
        "pid_namespace": claims.pid_namespace,
        "device_uuids": claims.device_uuids,
        **changes,
    }
    config = make_config("deferred_cuda", data_type=tensor_pb2.DATA_TYPE_BFLOAT16)
    config.config.output.cuda_ipc.CopyFrom(config_pb2.CudaIpcTransport(**fields))
    return config


def requests() -> list[Any]:
    return [
        make_item(number, encoded(png(photo(200 + number, 150, number))), path="deferred_cuda")
        for number in range(1, IMAGE_COUNT + 1)
    ]


@pytest.mark.asyncio
async def test_tensors_on_the_gpu_equal_the_bytes_that_come_inline() -> None:
    memory = ClientCudaMemory()
    with serving("--address", "127.0.0.1:0") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            inline = make_config("deferred_cuda", data_type=tensor_pb2.DATA_TYPE_BFLOAT16)
            async with opened(channel, inline) as expected:
                await expected.read_until("ready")
                await expected.send(*requests())
            async with opened(channel, ipc_config(memory)) as stream:
                ready = await stream.read_until("ready")
                await asyncio.to_thread(memory.check_offer, ready.cuda_ipc)
                await stream.send(*requests())
                for _ in range(IMAGE_COUNT):
                    message = await stream.read_until("features")
                    plan = stream.outcomes[message.id].plan
                    assert plan is not None
                    spec = plan.plan.features
                    tensor, close = memory.open(message.cuda_ipc, spec.data_type, tuple(spec.shape))
                    assert tensor.is_cuda
                    found = tensor.view(torch.uint8).cpu().numpy().tobytes()
                    assert found == expected.outcomes[message.id].data
                    closed, loop = asyncio.Event(), asyncio.get_running_loop()
                    close(functools.partial(loop.call_soon_threadsafe, closed.set))
                    await closed.wait()
                    await stream.send(service_pb2.StreamDeferredCudaRequest(release=event_pb2.Release(id=message.id)))
            assert stream.summary is not None
            assert stream.summary.completed_count == IMAGE_COUNT
            assert stream.summary.fallback_count == 0
    await asyncio.to_thread(memory.close)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device_uuids": ["GPU-00000000-0000-0000-0000-000000000000"]}, "sees the server's device"),
        ({"pid_namespace": "pid:[1]"}, "the server's pid_namespace"),
        ({"boot_id": "another"}, "the server's boot_id"),
    ],
)
@pytest.mark.asyncio
async def test_a_client_that_cannot_open_the_memory_is_refused(changes: dict[str, Any], reason: str) -> None:
    with serving("--address", "127.0.0.1:0") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            async with opened(channel, ipc_config(ClientCudaMemory(), **changes)) as stream:
                pass
            assert stream.reason == "TRANSPORT_UNAVAILABLE"
            assert stream.failure is not None
            assert reason in stream.failure.message
