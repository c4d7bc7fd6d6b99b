"""Every client that can run here runs every vector. `make conformance` builds the other languages' programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conformance.clients import BUF, PYTHON, Client, ClientKind, opened
from tests.conformance.suite import Servers, State, run_vector
from tests.conformance.toolchains import TOOLCHAINS, built
from tests.contract.vector_cases import GROUPS, load_vectors

_KINDS = [
    *(pytest.param(kind, id=kind.name) for kind in (*PYTHON, BUF)),
    *(
        pytest.param(
            toolchain.kind,
            id=toolchain.name,
            marks=pytest.mark.skipif(not built(toolchain), reason="not built; `make conformance` builds it"),
        )
        for toolchain in TOOLCHAINS
    ),
]
_SAID_BY_TYPED_CLIENT = {"opening": 12, "items": 6, "images": 10, "element types": 8, "cuda": 3, "unary": 6}
"""At least so many vectors of these groups. Of those that break rules a typed client can say few."""
_NOT_SAID_BY_BUF = {"grammar", "paths", "forward compatibility"}
"""Groups with requests that JSON cannot say."""


@dataclass(frozen=True, slots=True)
class _Started:
    kind: ClientKind
    client: Client


@pytest.fixture(scope="module", params=_KINDS)
def started(request: pytest.FixtureRequest) -> Iterator[_Started]:
    """A client, started once for all groups."""
    kind: ClientKind = request.param
    with opened(kind) as client:
        yield _Started(kind, client)


@pytest.mark.parametrize("group", GROUPS)
def test_vectors_of_a_group_give_what_they_say(group: str, started: _Started, servers: Servers) -> None:
    vectors = [vector for vector in load_vectors() if vector.group == group]
    reports = [run_vector(started.client, vector, servers)[0] for vector in vectors]
    assert [(report.name, report.texts) for report in reports if report.state is State.FAILED] == []
    passed_count = sum(report.state is State.PASSED for report in reports)
    if started.kind in PYTHON and "stubs" not in started.kind.name:
        assert passed_count >= _SAID_BY_TYPED_CLIENT.get(group, 0)
    elif started.kind != BUF or group not in _NOT_SAID_BY_BUF:
        # All others send whatever a vector says: nothing is skipped in silence.
        assert passed_count == len(vectors)
