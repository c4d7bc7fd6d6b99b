"""Runs vectors through clients and collects what came of it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tests.conformance.clients import Client, ClientKind, opened
from tests.conformance.outcomes import ReplyInvalid, Skipped, faults
from tests.contract.vector_cases import Vector
from tests.contract.vector_segments import placed_segments

__all__ = ["ClientReport", "Servers", "State", "VectorReport", "run_client", "run_vector"]

_MOST_BROKEN_ANSWERS = 5
"""A program that does not answer, or dies, is started again so often; each time may take over a minute."""


class State(enum.Enum):
    """What came of a vector."""

    PASSED = enum.auto()
    FAILED = enum.auto()
    SKIPPED = enum.auto()


@dataclass(frozen=True, slots=True)
class VectorReport:
    """What came of one vector."""

    name: str
    group: str
    state: State
    texts: tuple[str, ...] = ()
    """What is wrong, or why it was skipped."""


@dataclass(frozen=True, slots=True)
class ClientReport:
    """What came of one client."""

    name: str
    vectors: tuple[VectorReport, ...] = ()
    missing: str = ""
    """Why the client did not run at all."""
    fault: str = ""
    """What is wrong with the client itself, whatever its answers were."""
    example: str | None = None
    """What is wrong with the example in its README; "" for nothing, None where none was run."""

    def count(self, state: State, group: str | None = None) -> int:
        """Vectors, of one group or of all, that came to this."""
        return sum(report.state is state and group in (None, report.group) for report in self.vectors)

    @property
    def failed(self) -> bool:
        """Something is wrong."""
        return bool(self.fault or self.example or self.count(State.FAILED))


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers listen."""

    plain: str
    """One without CUDA."""
    cuda: str | None
    """One with CUDA, real or interpreted."""
    newer: str
    """One of a newer contract."""

    def address(self, vector: Vector) -> str | None:
        """The server that a vector is for."""
        if vector.newer:
            return self.newer
        return self.cuda if vector.cuda else self.plain


def run_client(kind: ClientKind, vectors: Sequence[Vector], servers: Servers) -> ClientReport:
    """Run all vectors, one after the other, with one client."""
    reports: list[VectorReport] = []
    broken_count = 0
    try:
        with opened(kind) as client:
            for vector in vectors:
                if broken_count == _MOST_BROKEN_ANSWERS:
                    report = VectorReport(vector.name, vector.group, State.FAILED, ("not run: it answers no more",))
                else:
                    report, broken = run_vector(client, vector, servers)
                    broken_count += broken
                reports.append(report)
    except ReplyInvalid as fault:
        return ClientReport(kind.name, tuple(reports), fault=str(fault))
    return ClientReport(kind.name, tuple(reports))


def run_vector(client: Client, vector: Vector, servers: Servers) -> tuple[VectorReport, bool]:
    """Run one vector. The second value says that the client did not answer as it should."""
    address = servers.address(vector)
    if address is None:
        return VectorReport(vector.name, vector.group, State.SKIPPED, ("it needs a server with CUDA",)), False
    try:
        with placed_segments(vector) as placed:
            outcome = client.run(placed, address)
    except ReplyInvalid as fault:
        return VectorReport(vector.name, vector.group, State.FAILED, (str(fault),)), True
    if isinstance(outcome, Skipped):
        return VectorReport(vector.name, vector.group, State.SKIPPED, (outcome.why,)), False
    found = faults(vector, outcome)
    return VectorReport(vector.name, vector.group, State.FAILED if found else State.PASSED, tuple(found)), False
