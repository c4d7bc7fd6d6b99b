"""Streams whose features stay on a GPU, played on the CPU: tensors, leases, and what is refused with which reason."""

from __future__ import annotations

import asyncio
import gc
import itertools
import queue
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from monopath import AsyncClient, Client, ProtocolError, Result, StreamBroken, StreamRefused, concatenate
from monopath.cuda_memory import CudaError, boot_id, pid_namespace
from monopath.v1 import event_pb2, location_pb2
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS
from tests.clients.fake_server import Script, Servicer, serving
from tests.clients.segments import NONCE, item_data
from tests.support.fake_cuda import FakeCudaDriver, FakeMachine

CUDA = wire.CUDA
GPU: dict[str, Any] = {**ARGUMENTS, "transport": "cuda_ipc", "timeout_seconds": 60}


class ServerGpu:
    """The GPU memory of a scripted server."""

    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine
        self.driver = FakeCudaDriver(machine)
        self.released: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.pointers: dict[int, int] = {}
        self._generations = itertools.count(1)
        self.offer = event_pb2.CudaIpcOffer(probe=self._put(NONCE), nonce=NONCE)
        self.offer.lease_timeout.FromSeconds(30)

    def put(self, item_id: int, data: bytes) -> location_pb2.CudaIpcHandle:
        """Put an item's bytes into memory of their own."""
        handle = self._put(data)
        self.pointers[item_id] = self._pointer
        return handle

    def whole_item(self, item_id: int, data: bytes) -> list[Any]:
        """Return plan, handle and completion of an item with these bytes."""
        return [CUDA.plan(item_id), CUDA.handle(item_id, self.put(item_id, data)), CUDA.completion(item_id)]

    def _put(self, data: bytes) -> location_pb2.CudaIpcHandle:
        self._pointer = self.driver.allocate(0, 16 + len(data))
        self.driver.copy_to_device(0, self._pointer + 16, memoryview(data))
        event = self.driver.new_event(0)
        self.driver.record(0, event, 0)
        return location_pb2.CudaIpcHandle(
            device_uuid=self.machine.uuids[0],
            memory_handle=self.driver.memory_handle(0, self._pointer),
            offset_bytes=16,
            length_bytes=len(data),
            event_handle=self.driver.event_handle(0, event),
            generation=next(self._generations),
        )


@pytest.fixture
def gpu() -> Iterator[ServerGpu]:
    server = ServerGpu(FakeMachine())
    yield server
    assert server.machine.misuses == []


def _serving_gpu(gpu: ServerGpu, seen: list[Any] | None = None, *, chunked_ids: tuple[int, ...] = ()) -> Script:
    """Return the script of a good server, which frees an item's memory when it is released."""

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        config = next(requests).config
        if seen is not None:
            seen.append(config)
        yield CUDA.ready(cuda_ipc=gpu.offer, device=gpu.machine.uuids[0])
        count = 0
        for request in requests:
            if request.WhichOneof("payload") == "item":
                count += 1
                item_id = request.item.id
                if item_id in chunked_ids:
                    data = item_data(item_id)
                    yield from [CUDA.plan(item_id), CUDA.chunk(item_id, data), CUDA.completion(item_id)]
                else:
                    yield from gpu.whole_item(item_id, item_data(item_id))
            else:
                item_id = request.release.id
                gpu.driver.free(0, gpu.pointers.pop(item_id))
                gpu.released.put(item_id)
        yield CUDA.summary(completed=count)

    return script


def _map(kind: str, address: str, driver: FakeCudaDriver, images: list[bytes], use: Any, **arguments: Any) -> None:
    """Map images on either client, and give the results to `use` while the stream is open."""
    arguments = {**GPU, **arguments}

    def run_sync() -> None:
        with Client(address, cuda_driver=driver) as client, client.deferred_cuda(**arguments) as stream:
            results = list(stream.map(images))
            use(results)
            results.clear()

    async def run_async() -> None:
        async with AsyncClient(address, cuda_driver=driver) as client, client.deferred_cuda(**arguments) as stream:
            results = [result async for result in stream.map(images)]
            await asyncio.to_thread(use, results)
            results.clear()

    if kind == "sync":
        run_sync()
    else:
        asyncio.run(run_async())


@KINDS
def test_features_are_tensors_on_the_device_and_given_back_with_the_last_view(kind: str, gpu: ServerGpu) -> None:
    driver = FakeCudaDriver(gpu.machine)
    seen: list[Any] = []

    def use(results: list[Result[Any]]) -> None:
        first, second, third = results
        for result in results:
            assert result.tensor.shape == wire.SHAPE
            assert result.tensor.dtype == torch.float32
            assert result.tensor.view(torch.uint8).flatten().numpy().tobytes() == item_data(result.id)
            assert result.torch() is result.tensor
            with pytest.raises(RuntimeError, match="Expected features that the CPU can read, got them on a GPU"):
                _ = result.array
        assert driver.open_count == 3
        first.release()
        assert gpu.released.get(timeout=30) == 1
        with pytest.raises(RuntimeError, match="Expected held features"):
            _ = first.tensor
        view = second.tensor[0, 1:].flatten()
        del second, result
        results.clear()
        gc.collect()
        assert view.view(torch.uint8).numpy().tobytes() == item_data(2)[16:]
        assert gpu.released.empty()
        with third as held:
            assert held.tensor.numel() == 12
        assert gpu.released.get(timeout=30) == 3
        del view
        gc.collect()
        assert gpu.released.get(timeout=30) == 2
        assert driver.open_count == 0

    with serving(Servicer(_serving_gpu(gpu, seen))) as address:
        _map(kind, address, driver, [b"a", b"b", b"c"], use, order="as_sent")
    (config,) = seen
    assert config.output.cuda_ipc.boot_id == boot_id()
    assert config.output.cuda_ipc.pid_namespace == pid_namespace()
    assert tuple(config.output.cuda_ipc.device_uuids) == gpu.machine.uuids
    assert gpu.released.empty()


@KINDS
def test_features_of_a_server_without_room_are_put_on_the_device(kind: str, gpu: ServerGpu) -> None:
    driver = FakeCudaDriver(gpu.machine)

    def use(results: list[Result[Any]]) -> None:
        tensors = [result.tensor for result in results]
        assert [tensor.view(torch.uint8).flatten().numpy().tobytes() for tensor in tensors] == [
            item_data(1),
            item_data(2),
        ]
        assert driver.calls.count("to_device") == 1

    with serving(Servicer(_serving_gpu(gpu, chunked_ids=(2,)))) as address:
        _map(kind, address, driver, [b"a", b"b"], use, order="as_sent")


def test_what_was_not_released_is_closed_all_the_same(gpu: ServerGpu) -> None:
    driver = FakeCudaDriver(gpu.machine)
    kept: list[Result[Any]] = []
    with serving(Servicer(_serving_gpu(gpu))) as address:
        with Client(address, cuda_driver=driver) as client:
            with client.deferred_cuda(**GPU) as stream:
                kept.extend(stream.map([b"a", b"b"]))
                stream.finish()
            # The stream is over: nothing can be sent, and what the caller holds stays open.
            assert driver.open_count == 2
            kept.pop(0)
            gc.collect()
        kept.clear()
        gc.collect()
    assert gpu.released.empty()


def test_a_batch_on_the_cpu_of_features_on_a_gpu_is_refused(gpu: ServerGpu) -> None:
    def use(results: list[Result[Any]]) -> None:
        with pytest.raises(RuntimeError, match="use tensor, or torch"):
            concatenate(results)

    with serving(Servicer(_serving_gpu(gpu))) as address:
        _map("sync", address, FakeCudaDriver(gpu.machine), [b"a"], use)


def test_on_other_transports_there_is_no_tensor_on_a_gpu() -> None:
    result: Result[Any] = wire_result()
    with pytest.raises(RuntimeError, match="Expected features on a GPU, got them in the CPU's memory"):
        _ = result.tensor


def wire_result() -> Result[Any]:
    from tests.clients.drivers import map_all
    from tests.clients.fake_server import answering

    with serving(Servicer(answering())) as address:
        (result,) = map_all("sync", address, [b"a"])
    assert isinstance(result, Result)
    return result


def _no_use(_results: list[Result[Any]]) -> None:
    raise AssertionError("Expected no stream")


class _NoDriver(FakeCudaDriver):
    def device_uuids(self) -> tuple[str, ...]:
        return ()


@KINDS
def test_a_process_without_a_gpu_says_so_before_anything_is_sent(kind: str, gpu: ServerGpu) -> None:
    seen: list[Any] = []
    with serving(Servicer(_serving_gpu(gpu, seen))) as address, pytest.raises(StreamRefused) as caught:
        _map(kind, address, _NoDriver(gpu.machine), [], _no_use)
    assert caught.value.reason == "TRANSPORT_UNAVAILABLE"
    assert "--pid" in str(caught.value)
    assert seen == []


@KINDS
def test_a_server_whose_gpu_memory_is_not_seen_is_refused_with_what_to_do(kind: str, gpu: ServerGpu) -> None:
    elsewhere = FakeCudaDriver(FakeMachine(*gpu.machine.uuids))
    with serving(Servicer(_serving_gpu(gpu))) as address, pytest.raises(StreamRefused) as caught:
        _map(kind, address, elsewhere, [], _no_use)
    assert caught.value.reason == "TRANSPORT_UNAVAILABLE"
    assert "one PID namespace" in str(caught.value)


@KINDS
def test_a_server_with_another_secret_is_refused(kind: str, gpu: ServerGpu) -> None:
    gpu.offer.nonce = NONCE[::-1]
    with serving(Servicer(_serving_gpu(gpu))) as address, pytest.raises(StreamRefused, match="other bytes"):
        _map(kind, address, FakeCudaDriver(gpu.machine), [], _no_use)


@pytest.mark.parametrize("offer", ["none", "of a device that is not there"])
def test_an_offer_that_makes_no_sense_is_a_protocol_error(offer: str, gpu: ServerGpu) -> None:
    if offer == "none":
        gpu.offer.Clear()
    else:
        gpu.offer.probe.device_uuid = "GPU-elsewhere"
    with serving(Servicer(_serving_gpu(gpu))) as address, pytest.raises(ProtocolError, match="Expected ready with GPU"):
        _map("sync", address, FakeCudaDriver(gpu.machine), [], _no_use)


@pytest.mark.parametrize(
    ("field", "value"),
    [("length_bytes", 44), ("offset_bytes", 3), ("device_uuid", "GPU-elsewhere")],
)
def test_a_handle_that_makes_no_sense_is_a_protocol_error(field: str, value: Any, gpu: ServerGpu) -> None:
    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield CUDA.ready(cuda_ipc=gpu.offer)
        next(requests)
        handle = gpu.put(1, item_data(1))
        setattr(handle, field, value)
        yield from [CUDA.plan(1), CUDA.handle(1, handle)]
        for _ in requests:
            pass

    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="Expected"):
        _map("sync", address, FakeCudaDriver(gpu.machine), [b"a"], _no_use)


def test_a_handle_of_shared_memory_on_a_gpu_stream_is_a_protocol_error(gpu: ServerGpu) -> None:
    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield CUDA.ready(cuda_ipc=gpu.offer)
        next(requests)
        handle = location_pb2.SharedMemoryHandle(name="x", length_bytes=48)
        yield from [CUDA.plan(1), CUDA.handle(1, handle)]
        for _ in requests:
            pass

    with serving(Servicer(script)) as address, pytest.raises(ProtocolError, match="got them in shared memory"):
        _map("sync", address, FakeCudaDriver(gpu.machine), [b"a"], _no_use)


class _FullDriver(FakeCudaDriver):
    def as_tensor(self, *_arguments: object) -> torch.Tensor:
        raise CudaError("cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY: out of memory", 2)


def test_a_device_that_refuses_ends_the_stream_with_its_words(gpu: ServerGpu) -> None:
    with (
        serving(Servicer(_serving_gpu(gpu))) as address,
        pytest.raises(StreamBroken, match="CUDA_ERROR_OUT_OF_MEMORY"),
    ):
        _map("sync", address, _FullDriver(gpu.machine), [b"a"], _no_use)
