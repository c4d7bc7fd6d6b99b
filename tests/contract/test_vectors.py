"""Runs the contract vectors in this process, where a stream is seen event by event."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from monopath_server.settings import DeviceMode
from tests.contract.vector_cases import Vector, load_vectors
from tests.contract.vector_client import run_vector
from tests.contract.vector_matching import mismatches
from tests.contract.vector_segments import placed_segments
from tests.support.grammar import Party
from tests.support.server import quick_settings, running_server

_ALL = [vector for vector in load_vectors() if not vector.newer]
_VECTORS = [vector for vector in _ALL if vector.cuda is not True]
_CUDA_VECTORS = [vector for vector in _ALL if vector.cuda is True] + [
    vector.on_cuda()
    for vector in _ALL
    if vector.cuda is None and vector.method == "StreamDeferredCpu" and vector.is_json
]
"""What needs CUDA, and every case of the CPU: the two paths give the same bytes and the same refusals."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address() -> AsyncIterator[str]:
    """A server without CUDA."""
    async with running_server() as server_address:
        yield server_address


@pytest.mark.parametrize("vector", _VECTORS, ids=lambda vector: vector.name)
async def test_a_vector_gives_what_it_says(vector: Vector, address: str) -> None:
    with placed_segments(vector) as placed:
        outcome, trace = await run_vector(placed, address)
    assert mismatches(vector, outcome) == []
    if trace is not None:
        # A vector may be a bad client; a good server keeps the grammar even so.
        trace.check(Party.SERVER)
        if vector.expected_code == "OK":
            assert {violation.rule for violation in trace.violations(Party.CLIENT)} <= {"request_bytes"}


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        pytest.param(DeviceMode.INTERPRETER, id="interpreted"),
        pytest.param(DeviceMode.AUTO, id="gpu", marks=pytest.mark.cuda),
    ],
)
async def cuda_address(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A server with CUDA. A process is interpreted or not for good, so the two run apart (`-m cuda`)."""
    async with running_server(quick_settings(cuda=request.param)) as server_address:
        yield server_address


@pytest.mark.parametrize("vector", _CUDA_VECTORS, ids=lambda vector: vector.name)
async def test_a_vector_gives_the_same_on_cuda(vector: Vector, cuda_address: str) -> None:
    with placed_segments(vector) as placed:
        outcome, trace = await run_vector(placed, cuda_address)
    assert mismatches(vector, outcome) == []
    if trace is not None:
        trace.check(Party.SERVER)
