"""Features that stay on the device, from the image to the client's tensor: interpreted kernels, and a played driver."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
import torch

from monopath.cuda_memory import ClientCudaMemory
from monopath.v1 import event_pb2, location_pb2, tensor_pb2
from monopath_server.delivery.device_memory import DeviceMemoryPool, PooledDeviceRows
from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.device import DeviceEngine
from monopath_server.engine.devices import Devices
from monopath_server.engine.host import HostEngine
from monopath_server.engine.images import PlannedImage
from monopath_server.engine.items import EncodedSource, Features, ImageItem
from monopath_server.engine.resources import Resources
from monopath_server.engine.rows import HostRows
from monopath_server.engine.workers import CancelToken, Workers
from monopath_server.faults import ItemFault, ItemReason, StreamFault, StreamReason
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import ElementType, Size
from monopath_server.settings import DeviceMode, Settings
from monopath_server.transforms.cuda.device import InterpreterDevice
from monopath_server.transforms.cuda.transform import BatchItem, CudaTransform
from tests.numerics.cuda_cases import ImageCase, batch_items
from tests.support.fake_cuda import FakeCudaDriver, FakeMachine
from tests.support.stream import photo, png

BLOCK = 2 * 1024 * 1024
CONFIG = dataclasses.replace(PRESETS["kimi-k3"], in_patch_limit=4, patch_limit_on_one_side=10)
CASES = [
    ImageCase(Size(90, 61), "noise", has_alpha=False, already_resized=False, seed=1),
    ImageCase(Size(40, 130), "edges", has_alpha=True, already_resized=False, seed=2),
    ImageCase(Size(20, 17), "noise", has_alpha=False, already_resized=False, seed=3),
    ImageCase(Size(33, 60), "waves", has_alpha=True, already_resized=False, seed=4),
]
WIRE_TYPES = {
    ElementType.UINT8: tensor_pb2.DATA_TYPE_UINT8,
    ElementType.FLOAT32: tensor_pb2.DATA_TYPE_FLOAT32,
    ElementType.BFLOAT16: tensor_pb2.DATA_TYPE_BFLOAT16,
    ElementType.FLOAT16: tensor_pb2.DATA_TYPE_FLOAT16,
}


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine("interpreter")


@pytest.fixture
def driver(machine: FakeMachine) -> FakeCudaDriver:
    """The server's."""
    return FakeCudaDriver(machine)


@pytest.fixture
def pool(driver: FakeCudaDriver) -> DeviceMemoryPool:
    return DeviceMemoryPool(driver, 0, "interpreter", 32 * BLOCK)


@functools.cache
def expected_rows(element_type: ElementType) -> list[bytes]:
    items, _ = batch_items(CASES, CONFIG, element_type)
    assert CudaTransform(CONFIG, element_type, InterpreterDevice()).run_batch(items) == (None,) * len(items)
    return [np.asarray(memory).tobytes() for _, _, memory in items]


def onto_device(pool: DeviceMemoryPool, item: BatchItem) -> tuple[BatchItem, PooledDeviceRows]:
    rows = pool.take(item[1].feature_bytes(ElementType.BFLOAT16))
    assert rows is not None
    return (item[0], item[1], rows), rows


@pytest.mark.parametrize(
    ("stays", "max_scratch_bytes"), [("1111", 512 * 1024 * 1024), ("0110", 512 * 1024 * 1024), ("1001", 40_000)]
)
def test_rows_of_one_batch_stay_on_the_device_or_go_to_the_host(
    pool: DeviceMemoryPool, driver: FakeCudaDriver, stays: str, max_scratch_bytes: int
) -> None:
    """With little scratch, images are cut into strips, whose rows come from several launches on both lanes."""
    transform = CudaTransform(CONFIG, ElementType.BFLOAT16, InterpreterDevice(), max_scratch_bytes=max_scratch_bytes)
    host_items, _ = batch_items(CASES, CONFIG, ElementType.BFLOAT16)
    items: list[BatchItem] = []
    held: list[PooledDeviceRows | None] = []
    for item, stays_here in zip(host_items, stays, strict=True):
        moved, rows = onto_device(pool, item) if stays_here == "1" else (item, None)
        items.append(moved)
        held.append(rows)
    driver.recorded_on.clear()
    assert transform.run_batch(items) == (None,) * len(CASES)
    found = [
        rows.tensor.numpy().tobytes() if rows is not None else np.asarray(item[2]).tobytes()
        for rows, item in zip(held, items, strict=True)
    ]
    assert found == expected_rows(ElementType.BFLOAT16)
    assert (transform.launch_count > 4) == (max_scratch_bytes == 40_000)
    assert len(driver.recorded_on) == stays.count("1")
    assert driver.machine.misuses == []


def test_a_batch_that_stays_on_the_device_pins_no_memory_for_it(
    pool: DeviceMemoryPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = InterpreterDevice()
    pinned: list[int] = []

    def allocate(size_bytes: int) -> torch.Tensor:
        pinned.append(size_bytes)
        return torch.empty(size_bytes, dtype=torch.uint8)

    monkeypatch.setattr(device, "allocate_host", allocate)
    transform = CudaTransform(CONFIG, ElementType.BFLOAT16, device)
    items, _ = batch_items(CASES[:2], CONFIG, ElementType.BFLOAT16)
    transform.run_batch([onto_device(pool, item)[0] for item in items])
    assert len(pinned) == 1  # the input's


def test_memory_of_another_size_is_refused(pool: DeviceMemoryPool) -> None:
    items, _ = batch_items(CASES[:1], CONFIG, ElementType.BFLOAT16)
    rows = pool.take(5)
    assert rows is not None
    with pytest.raises(ValueError, match=r"Expected memory of shape \(\d+,\), got \(5,\)"):
        CudaTransform(CONFIG, ElementType.BFLOAT16, InterpreterDevice()).run_batch([(*items[0][:2], rows)])


def test_an_image_that_fails_has_no_event_recorded(
    pool: DeviceMemoryPool, driver: FakeCudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(size_bytes: int) -> None:
        raise RuntimeError(f"CUDA out of memory: {size_bytes}")

    device = InterpreterDevice()
    monkeypatch.setattr(device, "allocate_device", refuse)
    transform = CudaTransform(CONFIG, ElementType.BFLOAT16, device)
    items, _ = batch_items(CASES[:2], CONFIG, ElementType.BFLOAT16)
    driver.recorded_on.clear()
    faults = transform.run_batch([onto_device(pool, item)[0] for item in items])
    assert [fault.reason for fault in faults if fault] == [ItemReason.DEVICE_OUT_OF_MEMORY] * 2
    assert driver.recorded_on == []


class Engine:
    """An engine on the interpreter, and its device's memory."""

    def __init__(self, element_type: ElementType, driver: FakeCudaDriver, max_shared_bytes: int = 8 * BLOCK) -> None:
        self.element_type = element_type
        settings = Settings(cuda=DeviceMode.INTERPRETER, batch_wait_us=0)
        self.resources = Resources(
            Workers(1), BufferPool(idle_bytes=0), settings.image_limits, settings.max_feature_bytes
        )
        self.devices = Devices(settings, max_shared_bytes=max_shared_bytes, make_driver=lambda: driver)

    async def open(self) -> None:
        info, batcher = await self.devices.batcher(CONFIG, self.element_type, "")
        self.engine = DeviceEngine(CONFIG, self.element_type, self.resources, device=info.id, batcher=batcher)
        self.pool = await self.devices.memory(info.id)

    async def plan(self, width_px: int = 60, height_px: int = 40) -> PlannedImage:
        data = png(photo(width_px, height_px))
        return await self.engine.plan(lambda: ImageItem(1, "", EncodedSource(data), b""), None)

    async def features(self, planned: PlannedImage) -> Features:
        return await self.engine.features(planned, CancelToken("test"), self.pool.place(self.resources.buffers))

    async def expected(self, planned: PlannedImage) -> bytes:
        """The same image's features, made by the CPU."""
        host = HostEngine(CONFIG, self.element_type, self.resources)
        features = await host.features(planned, CancelToken("test"), self.resources.buffers)
        rows = features.holding.rows
        assert isinstance(rows, HostRows)
        data = rows.array.tobytes()
        features.holding.release()
        return data

    def close(self) -> None:
        self.resources.workers.close()
        self.devices.close()


@pytest_asyncio.fixture
async def engine(driver: FakeCudaDriver) -> AsyncIterator[Engine]:
    made = Engine(ElementType.BFLOAT16, driver)
    await made.open()
    yield made
    made.close()


def handle_of(rows: PooledDeviceRows) -> location_pb2.CudaIpcHandle:
    return location_pb2.CudaIpcHandle(**dataclasses.asdict(rows.part))


@pytest.mark.parametrize("element_type", ElementType)
@pytest.mark.asyncio
async def test_a_client_reads_on_the_device_what_the_cpu_would_have_made(
    machine: FakeMachine, driver: FakeCudaDriver, element_type: ElementType
) -> None:
    server = Engine(element_type, driver)
    await server.open()
    client = ClientCudaMemory(FakeCudaDriver(machine))
    probe = server.pool.probe
    client.check_offer(
        event_pb2.CudaIpcOffer(probe=location_pb2.CudaIpcHandle(**dataclasses.asdict(probe.part)), nonce=probe.nonce)
    )
    planned = await server.plan()
    features = await server.features(planned)
    rows = features.holding.rows
    assert isinstance(rows, PooledDeviceRows)
    tensor, close = client.open(handle_of(rows), WIRE_TYPES[element_type], planned.plan.shape)
    assert tuple(tensor.shape) == planned.plan.shape
    assert str(tensor.dtype).removeprefix("torch.") == element_type.value
    assert tensor.contiguous().view(torch.uint8).numpy().tobytes() == await server.expected(planned)
    close(features.holding.release)
    await asyncio.to_thread(client.close)
    assert server.pool.idle_bytes > 0
    server.close()
    assert machine.misuses == []
    assert driver.machine.used_bytes() == BLOCK  # the probe's


@pytest.mark.asyncio
async def test_a_full_device_makes_the_same_features_for_the_host(driver: FakeCudaDriver) -> None:
    server = Engine(ElementType.BFLOAT16, driver, max_shared_bytes=BLOCK)
    await server.open()
    planned = await server.plan()
    features = await server.features(planned)
    rows = features.holding.rows
    assert isinstance(rows, HostRows)
    assert rows.array.tobytes() == await server.expected(planned)
    features.holding.release()
    server.close()
    assert server.resources.buffers.held_bytes == 0


@pytest.mark.asyncio
async def test_a_cancelled_item_gives_its_memory_back(engine: Engine) -> None:
    planned = await engine.plan(300, 200)
    for steps in range(12):
        task = asyncio.create_task(engine.features(planned))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # One worker, one queue: what was under way is over when the next one is.
    (await engine.features(planned)).holding.release()
    assert engine.pool.held_bytes == BLOCK
    assert engine.resources.buffers.held_bytes == 0


@pytest.mark.asyncio
async def test_an_image_that_cannot_be_decoded_takes_no_memory(engine: Engine) -> None:
    planned = await engine.plan()
    source = planned.item.source
    damaged = dataclasses.replace(source, data=source.data[:200])
    with pytest.raises(ItemFault):
        await engine.features(dataclasses.replace(planned, item=dataclasses.replace(planned.item, source=damaged)))
    assert engine.pool.held_bytes == BLOCK


@pytest.mark.asyncio
async def test_memory_that_is_kept_for_reuse_is_given_up_before_a_launch_fails(engine: Engine) -> None:
    planned = await engine.plan()
    (await engine.features(planned)).holding.release()
    assert engine.pool.idle_bytes > 0
    slot = engine.devices._slots["interpreter"]
    assert slot._device is not None
    await asyncio.to_thread(slot._device.release_unused)
    assert engine.pool.idle_bytes == 0


@pytest.mark.parametrize(
    ("mode", "max_shared_bytes", "device_id", "reason"),
    [
        (DeviceMode.INTERPRETER, BLOCK, "interpreter", "there is no device but the interpreter"),
        (DeviceMode.INTERPRETER, 0, "interpreter", "switched off"),
        (DeviceMode.OFF, BLOCK, "", "CUDA is switched off"),
    ],
)
@pytest.mark.asyncio
async def test_a_server_without_a_gpu_says_why_it_shares_no_memory(
    mode: DeviceMode, max_shared_bytes: int, device_id: str, reason: str
) -> None:
    devices = Devices(Settings(cuda=mode), max_shared_bytes=max_shared_bytes)
    assert reason in devices.memory_missing
    with pytest.raises(StreamFault, match=reason) as caught:
        await devices.memory(device_id)
    assert caught.value.reason is StreamReason.TRANSPORT_UNAVAILABLE
    devices.close()


@pytest.mark.asyncio
async def test_a_path_without_a_device_has_no_memory_to_share(engine: Engine) -> None:
    with pytest.raises(StreamFault, match="the CPU is no CUDA device of the server"):
        await engine.devices.memory("")


@pytest.mark.asyncio
async def test_a_driver_that_cannot_share_refuses_the_transport_and_not_the_path(
    driver: FakeCudaDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.machine.memory_bytes = 0
    server = Engine(ElementType.BFLOAT16, driver)
    with pytest.raises(StreamFault, match="got an error of interpreter"):
        await server.open()
    assert "cannot share its memory" in caplog.text
    planned = await server.plan()
    features = await server.engine.features(planned, CancelToken("test"), server.resources.buffers)
    features.holding.release()
    server.close()
