"""GPU memory of a server in a client's hands: opened once, read in place, closed before it is released."""

from __future__ import annotations

import gc
import importlib.util
import logging
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from monopath.cuda_driver import CudaError
from monopath.cuda_memory import ClientCudaMemory, HandleError, ImportedMemory, boot_id, pid_namespace
from monopath.v1 import event_pb2, location_pb2, tensor_pb2
from tests.support.fake_cuda import FakeCudaDriver, FakeMachine

UINT8, BFLOAT16 = tensor_pb2.DATA_TYPE_UINT8, tensor_pb2.DATA_TYPE_BFLOAT16
UUIDS = ("GPU-a", "GPU-b")
SECONDS = 30


class PlayedServer:
    """A process that exports memory."""

    def __init__(self, machine: FakeMachine) -> None:
        self.driver = FakeCudaDriver(machine)

    def export(self, data: bytes, *, offset_bytes: int = 0, device: int = 0) -> location_pb2.CudaIpcHandle:
        """A handle to some bytes, behind others."""
        pointer = self.driver.allocate(device, offset_bytes + len(data))
        self.driver.copy_to_device(device, pointer + offset_bytes, memoryview(data))
        event = self.driver.new_event(device)
        self.driver.record(device, event, 0)
        return location_pb2.CudaIpcHandle(
            device_uuid=UUIDS[device],
            memory_handle=self.driver.memory_handle(device, pointer),
            offset_bytes=offset_bytes,
            length_bytes=len(data),
            event_handle=self.driver.event_handle(device, event),
            generation=1,
        )


@pytest.fixture
def machine() -> Iterator[FakeMachine]:
    made = FakeMachine(*UUIDS)
    yield made
    assert made.misuses == []


@pytest.fixture
def server(machine: FakeMachine) -> PlayedServer:
    return PlayedServer(machine)


@pytest.fixture
def driver(machine: FakeMachine) -> FakeCudaDriver:
    """The client's."""
    return FakeCudaDriver(machine)


@pytest.fixture
def memory(driver: FakeCudaDriver) -> Iterator[ClientCudaMemory]:
    made = ClientCudaMemory(driver)
    yield made
    made.close()


def test_a_client_says_where_it_is_and_what_it_sees(memory: ClientCudaMemory, driver: FakeCudaDriver) -> None:
    fields = memory.transport_fields()
    assert fields.boot_id == boot_id() != ""
    assert fields.pid_namespace == pid_namespace()
    assert fields.pid_namespace.startswith("pid:[")
    assert fields.device_uuids == UUIDS
    assert driver.calls == []  # nothing that makes a context


def test_a_client_that_sees_no_device_is_told_so(machine: FakeMachine) -> None:
    machine.uuids = ()
    with pytest.raises(CudaError, match="Expected a CUDA device that is visible to this process, got none"):
        ClientCudaMemory(FakeCudaDriver(machine)).transport_fields()


def test_an_offer_that_holds_its_nonce_is_good(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver
) -> None:
    nonce = bytes(range(32))
    memory.check_offer(event_pb2.CudaIpcOffer(probe=server.export(nonce, offset_bytes=64), nonce=nonce))
    assert (driver.open_count, driver.event_count) == (0, 0)


def test_an_offer_with_other_bytes_is_refused(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver
) -> None:
    with pytest.raises(CudaError, match="Expected the server's nonce in its GPU memory, got other bytes"):
        memory.check_offer(event_pb2.CudaIpcOffer(probe=server.export(bytes(32)), nonce=b"\1" * 32))
    assert (driver.open_count, driver.event_count) == (0, 0)


def test_an_offer_that_cannot_be_opened_is_refused(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver
) -> None:
    probe = server.export(bytes(32))
    probe.memory_handle = bytes(64)
    with pytest.raises(CudaError, match="INVALID_HANDLE"):
        memory.check_offer(event_pb2.CudaIpcOffer(probe=probe, nonce=bytes(32)))
    assert (driver.open_count, driver.event_count) == (0, 0)


def test_an_offer_is_of_no_use_without_torch(
    memory: ClientCudaMemory, server: PlayedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(CudaError, match="Expected torch, which features on a GPU are tensors of, got none installed"):
        memory.check_offer(event_pb2.CudaIpcOffer(probe=server.export(bytes(32)), nonce=bytes(32)))


@pytest.mark.parametrize("nonce", [b"", bytes(31)])
def test_an_offer_without_a_nonce_of_its_length_is_refused(
    memory: ClientCudaMemory, server: PlayedServer, nonce: bytes
) -> None:
    with pytest.raises(HandleError, match="Expected a probe as long as its nonce, got 32 and"):
        memory.check_offer(event_pb2.CudaIpcOffer(probe=server.export(bytes(32)), nonce=nonce))


@pytest.mark.parametrize(
    ("data_type", "dtype"),
    [
        (UINT8, torch.uint8),
        (BFLOAT16, torch.bfloat16),
        (tensor_pb2.DATA_TYPE_FLOAT16, torch.float16),
        (tensor_pb2.DATA_TYPE_FLOAT32, torch.float32),
    ],
)
def test_a_tensor_has_its_type_and_shape_and_the_servers_bytes(
    memory: ClientCudaMemory,
    server: PlayedServer,
    driver: FakeCudaDriver,
    data_type: tensor_pb2.DataType.ValueType,
    dtype: torch.dtype,
) -> None:
    data = np.random.default_rng(1).integers(0, 256, 6 * dtype.itemsize, np.uint8).tobytes()
    tensor, close = memory.open(server.export(data, offset_bytes=256, device=1), data_type, (2, 3))
    assert tensor.dtype is dtype
    assert tuple(tensor.shape) == (2, 3)
    assert tensor.view(torch.uint8).numpy().tobytes() == data
    assert "copy_to_host" not in driver.calls
    close()


def test_a_tensor_is_handed_out_when_its_event_has_come(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver
) -> None:
    _, close = memory.open(server.export(bytes(4)), UINT8, (4,))
    assert driver.calls.index("wait") < driver.calls.index("open_memory") < driver.calls.index("as_tensor")
    assert driver.event_count == 0
    close()


def test_equal_handles_share_one_mapping_until_the_last_is_closed(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver
) -> None:
    first = server.export(bytes(range(8)))
    second = location_pb2.CudaIpcHandle()
    second.CopyFrom(first)
    second.offset_bytes, second.length_bytes = 4, 4
    _, close_first = memory.open(first, UINT8, (8,))
    tensor, close_second = memory.open(second, UINT8, (4,))
    assert driver.calls.count("open_memory") == 1
    assert closed(close_first)
    assert driver.open_count == 1
    assert tensor.tolist() == [4, 5, 6, 7]
    assert closed(close_second)
    assert driver.open_count == 0


def closed(close: object) -> bool:
    """Close, and wait until it is done."""
    done = threading.Event()
    assert callable(close)
    close(done.set)
    return done.wait(SECONDS)


def test_memory_is_closed_before_it_is_released_and_after_the_device_is_done(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver
) -> None:
    _, close = memory.open(server.export(bytes(4)), UINT8, (4,))
    calls: list[str] = []
    done = threading.Event()

    def release() -> None:
        calls.extend(driver.calls[-2:])
        done.set()

    close(release)
    assert done.wait(SECONDS)
    assert calls == ["synchronize", "close_memory"]


def test_a_mapping_is_given_up_once(memory: ClientCudaMemory, server: PlayedServer) -> None:
    handle = server.export(bytes(4))
    released: list[str] = []
    _, close_first = memory.open(handle, UINT8, (4,))
    tensor, close_second = memory.open(handle, UINT8, (4,))
    close_first(lambda: released.append("first"))
    close_first(lambda: released.append("again"))
    assert tensor.tolist() == [0] * 4
    close_second(lambda: released.append("second"))
    memory.close()
    assert released == ["first", "second"]


def test_the_owner_lives_as_long_as_any_view(memory: ClientCudaMemory, server: PlayedServer) -> None:
    class Owner:
        pass

    owner = Owner()
    tensor, close = memory.open(server.export(bytes(8)), BFLOAT16, (2, 2), owner)
    done = threading.Event()
    weakref.finalize(owner, close, done.set)
    view = tensor[1:].view(torch.int16)
    del owner, tensor
    gc.collect()
    assert not done.is_set()
    assert view.tolist() == [[0, 0]]
    del view
    gc.collect()
    assert done.wait(SECONDS)


def test_closing_takes_no_lock_that_a_finalizer_could_meet(memory: ClientCudaMemory, server: PlayedServer) -> None:
    _, close = memory.open(server.export(bytes(4)), UINT8, (4,))
    done = threading.Event()
    with memory._lock, memory._imported._lock:
        close(done.set)
    assert done.wait(SECONDS)


def test_a_failure_keeps_nothing_else_from_being_closed(
    memory: ClientCudaMemory,
    server: PlayedServer,
    driver: FakeCudaDriver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(_device: int) -> None:
        raise CudaError("cuCtxSynchronize failed with CUDA_ERROR_LAUNCH_FAILED", 719)

    monkeypatch.setattr(driver, "synchronize", refuse)
    _, close = memory.open(server.export(bytes(4)), UINT8, (4,))
    with caplog.at_level(logging.WARNING):
        assert closed(close)
    assert driver.open_count == 0
    assert "Closing GPU memory of a server failed" in caplog.text


def test_what_is_in_use_when_the_client_closes_can_be_given_up_later(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver
) -> None:
    tensor, close = memory.open(server.export(bytes([7])), UINT8, (1,))
    memory.close()
    memory.close()
    assert tensor.tolist() == [7]
    with pytest.raises(ValueError, match="Expected open CUDA memory, got a closed one"):
        memory.open(server.export(bytes(4)), UINT8, (4,))
    assert closed(close)
    assert driver.open_count == 0


def test_a_client_that_is_forgotten_leaves_no_thread(server: PlayedServer, driver: FakeCudaDriver) -> None:
    memory = ClientCudaMemory(driver)
    _, close = memory.open(server.export(bytes(4)), UINT8, (4,))
    (thread,) = (found for found in threading.enumerate() if found.name == "monopath-cuda-close")
    close()
    del memory, close, _
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length_bytes": 7}, "Expected 8 bytes behind the handle, got 7"),
        ({"offset_bytes": 1}, "Expected an offset that is a multiple of 2, got 1"),
        ({"device_uuid": "GPU-c"}, "Expected memory of one of the devices GPU-a, GPU-b, got 'GPU-c'"),
    ],
)
def test_a_handle_that_makes_no_sense_is_refused_unopened(
    memory: ClientCudaMemory, server: PlayedServer, driver: FakeCudaDriver, change: dict[str, object], message: str
) -> None:
    handle = server.export(bytes(8))
    for name, value in change.items():
        setattr(handle, name, value)
    with pytest.raises(HandleError, match=message):
        memory.open(handle, BFLOAT16, (2, 2))
    assert driver.calls == []


def test_memory_of_a_server_that_is_gone_is_an_error_of_the_driver(
    memory: ClientCudaMemory, server: PlayedServer, machine: FakeMachine
) -> None:
    handle = server.export(bytes(4))
    machine.blocks.clear()
    with pytest.raises(CudaError, match="INVALID_HANDLE"):
        memory.open(handle, UINT8, (4,))


def test_features_that_came_in_chunks_are_brought_to_the_device(
    memory: ClientCudaMemory, driver: FakeCudaDriver
) -> None:
    data = np.arange(8, dtype=np.uint8)
    tensor = memory.upload(data.data, BFLOAT16, (2, 2), "GPU-b")
    assert tensor.dtype is torch.bfloat16
    assert tensor.view(torch.uint8).numpy().tobytes() == data.tobytes()
    assert driver.calls == ["to_device"]


def test_imported_memory_is_opened_again_after_it_was_closed(server: PlayedServer, driver: FakeCudaDriver) -> None:
    imported = ImportedMemory(driver)
    handle = server.export(bytes(4)).memory_handle
    for _ in range(2):
        imported.acquire(0, handle)
        imported.release(0, handle)
    assert driver.calls.count("open_memory") == 2
    assert len(imported) == 0
