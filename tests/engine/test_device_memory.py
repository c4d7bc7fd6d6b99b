"""Pooled memory of a GPU: what is handed out again, what never is, and what happens when there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from monopath.cuda_driver import CudaError
from monopath.cuda_memory import boot_id, pid_namespace
from monopath_server.delivery.device_delivery import DeviceDelivery, check_client
from monopath_server.delivery.device_memory import DeviceMemoryPool, PooledDeviceRows
from monopath_server.delivery.leases import Leases
from monopath_server.delivery.parts import Chunk, DevicePart
from monopath_server.engine.buffers import BufferPool
from monopath_server.engine.items import Features, Provenance, Route, Timings
from monopath_server.engine.rows import Holding, HostRows
from tests.engine.test_store import PLAN
from tests.support.fake_cuda import FakeCudaDriver, FakeMachine

MIB = 1024 * 1024
BLOCK = 2 * MIB
UUID = FakeMachine().uuids[0]


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def driver() -> FakeCudaDriver:
    return FakeCudaDriver()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(driver: FakeCudaDriver, clock: Clock) -> DeviceMemoryPool:
    """Room for the probe and for three blocks."""
    return DeviceMemoryPool(driver, 0, UUID, 4 * BLOCK, retired_seconds=60, clock=clock)


def taken(pool: DeviceMemoryPool, size_bytes: int = 1000) -> PooledDeviceRows:
    rows = pool.take(size_bytes)
    assert rows is not None
    return rows


def test_a_released_block_is_handed_out_again_as_another_use(pool: DeviceMemoryPool, driver: FakeCudaDriver) -> None:
    first = taken(pool)
    part = first.part
    first.release()
    calls = len(driver.calls)
    second = taken(pool, 2000)
    assert second.part.memory_handle == part.memory_handle
    assert second.part.event_handle == part.event_handle
    assert second.part.generation > part.generation
    assert second.part.length_bytes == 2000
    assert driver.calls[calls:] == []


def test_a_block_holds_nothing_of_others(pool: DeviceMemoryPool, driver: FakeCudaDriver) -> None:
    """The driver cuts small allocations out of a block of 2 MiB, and exports that."""
    for size_bytes in (1, 3 * MIB):
        taken(pool, size_bytes)
    assert all(block.memory.nbytes % BLOCK == 0 for block in driver.machine.blocks.values())
    handles = [block.handle for block in driver.machine.blocks.values()]
    assert len(set(handles)) == len(handles) == 3


def test_a_full_pool_has_no_memory_until_some_is_released(pool: DeviceMemoryPool) -> None:
    held = [taken(pool) for _ in range(3)]
    assert pool.take(1) is None
    assert pool.full_count == 1
    held.pop().release()
    taken(pool)


def test_idle_blocks_of_other_sizes_make_room(pool: DeviceMemoryPool, driver: FakeCudaDriver) -> None:
    held = [taken(pool) for _ in range(3)]
    for rows in held:
        rows.release()
    assert pool.idle_bytes == 3 * BLOCK
    taken(pool, 2 * BLOCK)
    assert pool.idle_bytes == BLOCK
    assert driver.machine.used_bytes() == 4 * BLOCK
    assert driver.event_count == 3
    assert driver.machine.misuses == []


def test_what_is_larger_than_the_pool_takes_nothing_from_it(pool: DeviceMemoryPool, driver: FakeCudaDriver) -> None:
    held = taken(pool)
    assert pool.take(100 * BLOCK) is None
    assert pool.held_bytes == 2 * BLOCK
    held.release()
    assert driver.machine.used_bytes() == 2 * BLOCK


def test_a_device_without_memory_gets_what_is_idle_back_before_it_is_called_full() -> None:
    driver = FakeCudaDriver(FakeMachine(memory_bytes=3 * BLOCK))
    pool = DeviceMemoryPool(driver, 0, UUID, 100 * BLOCK)
    taken(pool).release()
    rows = taken(pool, 2 * BLOCK)
    assert pool.take(1) is None
    assert pool.held_bytes == 3 * BLOCK
    rows.release()
    taken(pool)
    assert driver.machine.misuses == []


def test_retired_memory_is_never_handed_out_again(pool: DeviceMemoryPool, driver: FakeCudaDriver, clock: Clock) -> None:
    rows = taken(pool)
    handle = rows.part.memory_handle
    rows.retire()
    rows.release()
    assert pool.retired_bytes == BLOCK
    assert [taken(pool).part.memory_handle == handle for _ in range(2)] == [False, False]
    clock.seconds = 59
    assert pool.take(1) is None  # still counted, still there
    assert handle in driver.machine.blocks
    clock.seconds = 60
    assert taken(pool).part.memory_handle != handle
    assert handle not in driver.machine.blocks
    assert pool.retired_bytes == 0


def test_retired_memory_is_left_alone_as_long_as_nobody_needs_its_room(
    pool: DeviceMemoryPool, driver: FakeCudaDriver, clock: Clock
) -> None:
    rows = taken(pool)
    rows.retire()
    rows.release()
    clock.seconds = 1000
    taken(pool)
    assert pool.retired_bytes == BLOCK
    assert "free" not in driver.calls


def test_trimming_frees_what_nobody_can_read(pool: DeviceMemoryPool, driver: FakeCudaDriver, clock: Clock) -> None:
    idle, old, young = (taken(pool) for _ in range(3))
    idle.release()
    old.retire()
    old.release()
    clock.seconds = 30
    young.retire()
    young.release()
    clock.seconds = 70
    pool.trim()
    assert (pool.idle_bytes, pool.retired_bytes, pool.held_bytes) == (0, BLOCK, BLOCK)
    assert driver.machine.used_bytes() == 2 * BLOCK


def test_a_release_calls_no_driver_and_counts_once(pool: DeviceMemoryPool, driver: FakeCudaDriver) -> None:
    rows = taken(pool)
    calls = len(driver.calls)
    rows.release()
    rows.release()
    assert len(driver.calls) == calls
    assert pool.idle_bytes == BLOCK


@pytest.mark.parametrize("use", [lambda rows: rows.tensor, lambda rows: rows.part, lambda rows: rows.mark_written(0)])
def test_released_rows_cannot_be_used(pool: DeviceMemoryPool, use: Any) -> None:
    rows = taken(pool)
    rows.release()
    with pytest.raises(RuntimeError, match="Expected held device memory, got a released one"):
        use(rows)


def test_a_device_that_cannot_export_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeCudaDriver()

    def refuse(*_: object) -> bytes:
        raise CudaError("cuIpcGetEventHandle failed with CUDA_ERROR_NOT_SUPPORTED", 801)

    monkeypatch.setattr(driver, "event_handle", refuse)
    with pytest.raises(CudaError, match="NOT_SUPPORTED"):
        DeviceMemoryPool(driver, 0, UUID, 4 * BLOCK)
    assert driver.machine.used_bytes() == 0
    assert driver.event_count == 0


def test_a_device_that_fails_later_does_not_fill_the_pool(
    pool: DeviceMemoryPool, driver: FakeCudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(driver, "allocate", lambda *_: (_ for _ in ()).throw(CudaError("CUDA_ERROR_LAUNCH_FAILED", 719)))
        for _ in range(10):
            with pytest.raises(CudaError):
                pool.take(1)
    assert pool.held_bytes == BLOCK
    taken(pool)


OWN = (boot_id(), pid_namespace(), [UUID])


def test_a_client_of_this_host_is_let_in() -> None:
    assert check_client(*OWN, UUID) == ""
    assert all(OWN)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        (("", OWN[1], [UUID]), "Expected the boot_id of the client, got none"),
        ((OWN[0], "", [UUID]), "Expected the pid_namespace of the client, got none"),
        (("another host", OWN[1], [UUID]), f"Expected a client with the server's boot_id {OWN[0]}, got another host: "),
        ((OWN[0], "pid:[1]", [UUID]), f"Expected a client with the server's pid_namespace {OWN[1]}, got pid:[1]: "),
        ((OWN[0], OWN[1], []), f"Expected a client that sees the server's device {UUID}, got one that sees none"),
        ((OWN[0], OWN[1], ["GPU-1", "GPU-2"]), "got one that sees GPU-1, GPU-2"),
    ],
)
def test_a_client_elsewhere_is_refused_with_the_reason(claims: tuple[str, str, list[str]], reason: str) -> None:
    assert reason in check_client(*claims, UUID)


def features_in(rows: Any) -> Features:
    return Features(Holding(rows), PLAN, Provenance(b"", b"", None, Route.DEVICE), Timings())


def delivery_of(pool: DeviceMemoryPool) -> DeviceDelivery:
    return DeviceDelivery(pool, BufferPool(idle_bytes=0), Leases(3600), chunk_bytes=400)


@pytest.mark.asyncio
async def test_a_lease_ends_with_the_clients_release(pool: DeviceMemoryPool) -> None:
    delivery = delivery_of(pool)
    rows = await asyncio.to_thread(delivery.place.take, 1000)
    assert isinstance(rows, PooledDeviceRows)
    features = await delivery.prepare(features_in(rows))
    assert list(delivery.parts(7, features.holding)) == [rows.part]
    features.holding.release()
    assert pool.held_bytes == 2 * BLOCK
    delivery.release(7)
    assert (pool.held_bytes, pool.idle_bytes, pool.retired_bytes) == (BLOCK, BLOCK, 0)
    assert delivery.fallback_count == 0


@pytest.mark.asyncio
async def test_a_lease_that_ends_with_the_stream_retires_its_memory(pool: DeviceMemoryPool) -> None:
    delivery = delivery_of(pool)
    features = features_in(taken(pool))
    assert isinstance(next(delivery.parts(7, features.holding)), DevicePart)
    features.holding.release()
    delivery.close()
    assert (pool.held_bytes, pool.idle_bytes, pool.retired_bytes) == (BLOCK, 0, BLOCK)


@pytest.mark.asyncio
async def test_where_the_device_is_full_features_go_in_chunks(pool: DeviceMemoryPool) -> None:
    delivery = delivery_of(pool)
    held = [taken(pool) for _ in range(3)]
    rows = await asyncio.to_thread(delivery.place.take, 1000)
    assert isinstance(rows, HostRows)
    rows.array[...] = np.arange(1000) % 251
    features = await delivery.prepare(features_in(rows))
    chunks = list(delivery.parts(7, features.holding))
    assert [chunk.offset_bytes for chunk in chunks if isinstance(chunk, Chunk)] == [0, 400, 800]
    assert b"".join(chunk.data for chunk in chunks if isinstance(chunk, Chunk)) == bytes(rows.array)
    assert delivery.fallback_count == 1
    features.holding.release()
    assert len(held) == 3
