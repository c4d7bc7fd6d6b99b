"""GPU memory from one process to another, on a real GPU: `make test-cuda`."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from monopath.cuda_memory import ClientCudaMemory, CloseRows, CudaError
from monopath.v1 import event_pb2, location_pb2, tensor_pb2
from monopath_server.processors.types import ElementType
from monopath_server.transforms.cpu.transform import CpuTransform
from tests.numerics.cuda_cases import batch_items
from tests.support.cuda_exporter import CONFIG, case_of

pytestmark = pytest.mark.cuda

SECONDS = 60
WIRE_TYPES = {
    ElementType.UINT8: tensor_pb2.DATA_TYPE_UINT8,
    ElementType.FLOAT32: tensor_pb2.DATA_TYPE_FLOAT32,
    ElementType.BFLOAT16: tensor_pb2.DATA_TYPE_BFLOAT16,
    ElementType.FLOAT16: tensor_pb2.DATA_TYPE_FLOAT16,
}


class ExporterProcess:
    """The other process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, command: str, **arguments: Any) -> Any:
        """Let it do something, and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def make(self, *seeds: int, element_type: ElementType = ElementType.BFLOAT16) -> list[Any]:
        """Features of images, in one batch."""
        answer = self.do("make", seeds=seeds, element_type=element_type.value)
        assert answer["faults"] == []
        return list(answer["parts"])

    def offer(self) -> event_pb2.CudaIpcOffer:
        """What a server would offer."""
        answer = self.do("probe")
        return event_pb2.CudaIpcOffer(probe=handle_of(answer["part"]), nonce=base64.b64decode(answer["nonce"]))


@pytest.fixture(scope="module")
def exporter() -> Iterator[ExporterProcess]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.cuda_exporter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield ExporterProcess(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=SECONDS)
    process.kill()
    process.wait()


@pytest.fixture
def memory() -> Iterator[ClientCudaMemory]:
    made = ClientCudaMemory()
    yield made
    made.close()


def handle_of(part: Any) -> location_pb2.CudaIpcHandle:
    fields = {name: value for name, value in part.items() if name != "shape"}
    for name in ("memory_handle", "event_handle"):
        fields[name] = base64.b64decode(fields[name])
    return location_pb2.CudaIpcHandle(**fields)


def open_part(
    memory: ClientCudaMemory, part: Any, element_type: ElementType = ElementType.BFLOAT16
) -> tuple[torch.Tensor, CloseRows]:
    return memory.open(handle_of(part), WIRE_TYPES[element_type], part["shape"])


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes()


def expected(seed: int, element_type: ElementType = ElementType.BFLOAT16) -> bytes:
    [(prepared, plan, rows)], _ = batch_items([case_of(seed)], CONFIG, element_type)
    CpuTransform(CONFIG, element_type).rows_into(prepared, plan, rows)
    return rows.tobytes()


def close_and_wait(close: CloseRows) -> None:
    done = threading.Event()
    close(done.set)
    assert done.wait(SECONDS)


@pytest.mark.parametrize("element_type", ElementType)
def test_a_tensor_of_another_process_has_the_bytes_that_the_cpu_makes(
    exporter: ExporterProcess, memory: ClientCudaMemory, element_type: ElementType
) -> None:
    parts = exporter.make(1, 2, 3, element_type=element_type)
    for seed, part in zip((1, 2, 3), parts, strict=True):
        tensor, close = open_part(memory, part, element_type)
        assert tensor.is_cuda
        assert list(tensor.shape) == part["shape"]
        assert bytes_of(tensor) == expected(seed, element_type)
        close_and_wait(close)
        exporter.do("release", seed=seed)


def test_memory_that_is_used_again_is_opened_again(exporter: ExporterProcess, memory: ClientCudaMemory) -> None:
    handles = set()
    for seed in range(4, 10):
        [part] = exporter.make(seed)
        tensor, close = open_part(memory, part)
        assert bytes_of(tensor) == expected(seed)
        close_and_wait(close)
        handles.add(part["memory_handle"])
        exporter.do("release", seed=seed)
    assert len(handles) == 1


def test_a_tensor_that_was_not_released_keeps_its_bytes(exporter: ExporterProcess, memory: ClientCudaMemory) -> None:
    [part] = exporter.make(20)
    tensor, close = open_part(memory, part)
    exporter.do("retire", seed=20)
    later = exporter.make(*range(21, 26))
    assert part["memory_handle"] not in [found["memory_handle"] for found in later]
    assert bytes_of(tensor) == expected(20)
    close_and_wait(close)
    for seed in range(21, 26):
        exporter.do("release", seed=seed)


def test_memory_is_released_when_every_stream_has_done_with_it(
    exporter: ExporterProcess, memory: ClientCudaMemory
) -> None:
    [part] = exporter.make(30)
    tensor, close = open_part(memory, part)
    side = torch.cuda.Stream(tensor.device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        torch.cuda._sleep(1_000_000_000)  # type: ignore[no-untyped-call]  # about half a second
        copy = tensor.clone()
    del tensor
    close_and_wait(close)
    assert side.query()
    exporter.do("release", seed=30)
    exporter.make(31)
    assert bytes_of(copy) == expected(30)
    exporter.do("release", seed=31)


def test_the_probe_is_found(exporter: ExporterProcess, memory: ClientCudaMemory) -> None:
    memory.check_offer(exporter.offer())
    memory.check_offer(exporter.offer())


def test_a_probe_with_other_bytes_is_refused(exporter: ExporterProcess, memory: ClientCudaMemory) -> None:
    offer = exporter.offer()
    offer.nonce = bytes(len(offer.nonce))
    with pytest.raises(CudaError, match="Expected the server's nonce in its GPU memory, got other bytes"):
        memory.check_offer(offer)


def test_a_handle_that_nobody_exported_is_refused_by_the_driver(
    exporter: ExporterProcess, memory: ClientCudaMemory
) -> None:
    offer = exporter.offer()
    offer.probe.memory_handle = np.random.default_rng(0).bytes(64)
    with pytest.raises(CudaError, match="cuIpcOpenMemHandle_v2 failed with CUDA_ERROR_"):
        memory.check_offer(offer)


def test_a_process_has_one_context_on_the_device_it_chose(exporter: ExporterProcess) -> None:
    exporter.make(40)
    exporter.do("release", seed=40)
    answer = exporter.do("contexts")
    assert answer["active"] == [answer["chosen"]]
