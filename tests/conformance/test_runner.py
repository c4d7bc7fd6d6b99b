"""The runner itself: it fails where a client lies, dies or is missing, and says so."""

from __future__ import annotations

import base64
import contextlib
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from tests.conformance import __main__ as command
from tests.conformance import clients, liar
from tests.conformance.clients import PYTHON, ClientKind, Program, opened
from tests.conformance.outcomes import Skipped, faults
from tests.conformance.suite import ClientReport, Servers, State, run_client
from tests.conformance.toolchains import TOOLCHAINS
from tests.contract.vector_cases import Vector, load_vectors
from tests.contract.vector_matching import Outcome
from tests.contract.vector_segments import placed_segments

_ALL = load_vectors()
_FEW = [vector for vector in _ALL if vector.name in ("cpu_happy_path", "config_keys_missing_cpu", "config_twice")]
_SHORT_SECONDS = 5.0


def _liar(lie: str) -> ClientKind:
    return ClientKind("liar", Program((sys.executable, "-m", "tests.conformance.liar", lie)))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "ANSWER_SECONDS", _SHORT_SECONDS)


def test_a_program_that_tells_the_truth_passes(servers: Servers) -> None:
    report = run_client(_liar("nothing"), _FEW, servers)
    assert [vector.state for vector in report.vectors] == [State.PASSED] * len(_FEW)
    assert not report.failed


@pytest.mark.parametrize("lie", liar.ANSWERS)
def test_an_answer_that_lies_fails(lie: str, servers: Servers) -> None:
    report = run_client(_liar(lie), _FEW, servers)
    assert report.failed
    assert all(vector.texts for vector in report.vectors if vector.state is State.FAILED)


@pytest.mark.parametrize("manner", liar.MANNERS)
@pytest.mark.usefixtures("impatient")
def test_a_program_that_does_not_keep_the_protocol_fails(manner: str, servers: Servers) -> None:
    report = run_client(_liar(manner), _FEW[:1], servers)
    assert report.failed
    assert bool(report.fault) == (manner in ("a_line_too_many", "a_bad_end"))


def test_a_program_that_dies_is_started_again_and_its_last_words_are_told(servers: Servers) -> None:
    report = run_client(_liar("death"), _FEW, servers)
    assert [vector.state for vector in report.vectors] == [State.FAILED] * len(_FEW)
    assert all("exit code 3, 'It was the liar\\n'" in vector.texts[0] for vector in report.vectors)


def test_a_program_that_never_answers_well_is_given_up(servers: Servers) -> None:
    report = run_client(_liar("death"), _ALL[:8], servers)
    assert [vector.texts[0].startswith("not run") for vector in report.vectors] == [False] * 5 + [True] * 3
    assert all(vector.state is State.FAILED for vector in report.vectors)


def test_a_program_that_cannot_be_started_fails(servers: Servers) -> None:
    report = run_client(ClientKind("none", Program(("/nonexistent/program",))), _FEW[:1], servers)
    assert report.failed
    assert "can be started" in report.vectors[0].texts[0]


def test_without_cuda_its_vectors_are_skipped(servers: Servers) -> None:
    vectors = [vector for vector in _ALL if vector.cuda]
    report = run_client(PYTHON[-1], vectors, Servers(servers.plain, None, servers.newer))
    assert {(vector.state, vector.texts) for vector in report.vectors} == {
        (State.SKIPPED, ("it needs a server with CUDA",))
    }


def test_vectors_give_the_same_whatever_ran_before(servers: Servers) -> None:
    stubs = next(kind for kind in PYTHON if kind.name == "Python stubs")
    report = run_client(stubs, [*reversed(_ALL), *_ALL], servers)
    assert [(vector.name, vector.texts) for vector in report.vectors if vector.state is not State.PASSED] == []


# ---- the command


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, servers: Servers) -> Callable[..., int]:
    """Runs the command with one client and one vector, against the servers that run already."""

    def run(lie: str, *arguments: str) -> int:
        kind = _liar(lie)
        monkeypatch.setattr(command, "PYTHON", (kind,))
        monkeypatch.setattr(command, "running_servers", lambda _cuda: contextlib.nullcontext(servers))
        return command.main(["--vector", "cpu_happy_path", "--client", kind.name, *arguments])

    return run


def test_the_command_ends_with_0_where_every_vector_passes(
    run_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("nothing") == 0
    printed = capsys.readouterr().out
    assert "1/0/0" in printed
    assert printed.endswith("conformance: 1 passed, 0 failed, 0 skipped\n")


def test_the_command_ends_with_1_and_says_what_differs_where_a_client_lies(
    run_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("another_byte") == 1
    printed = capsys.readouterr().out
    assert "0/1/0" in printed
    assert "liar: FAILED cpu_happy_path:\n    item 1: Expected features of SHA-256 " in printed
    assert printed.endswith("conformance: 0 passed, 1 failed, 0 skipped\n")


@pytest.mark.parametrize(("arguments", "exit_status"), [((), 0), (("--require-all",), 1)])
def test_a_missing_client_is_told_and_fails_only_where_all_are_required(
    arguments: tuple[str, ...],
    exit_status: int,
    run_command: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    toolchain = replace(TOOLCHAINS[0], name="Nowhere", product=clients.REPOSITORY / "build" / "nowhere")
    monkeypatch.setattr(command, "TOOLCHAINS", (toolchain,))
    assert run_command("nothing", "--client", "Nowhere", *arguments) == exit_status
    assert f"Nowhere: {'missing' if exit_status else 'skipped'}: not built" in capsys.readouterr().out


def test_only_what_is_built_runs_where_the_others_ran_before(
    run_command: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = _liar("nothing").program
    assert honest is not None
    toolchain = replace(TOOLCHAINS[0], name="Elsewhere", program=honest, product=clients.REPOSITORY)
    monkeypatch.setattr(command, "TOOLCHAINS", (toolchain,))
    assert run_command("another_byte", "--client", "Elsewhere", "--only-built") == 0
    assert capsys.readouterr().out.endswith("conformance: 1 passed, 0 failed, 0 skipped\n")


# ---- no vector passes by accident


@pytest.fixture(scope="module")
def outcomes(servers: Servers) -> dict[str, Outcome]:
    """What really comes of each vector."""
    found = {}
    stubs = next(kind for kind in PYTHON if kind.name == "Python stubs")
    with opened(stubs) as client:
        for vector in _ALL:
            address = servers.address(vector)
            assert address is not None
            with placed_segments(vector) as placed:
                outcome = client.run(placed, address)
            assert not isinstance(outcome, Skipped)
            found[vector.name] = outcome
    return found


def _some(responses: tuple[Message, ...]) -> Iterator[tuple[int, Message]]:
    """Responses with their index: all, or of a long stream a dozen, the first and the last among them."""
    stride = max(1, len(responses) // 12)
    indices = {*range(0, len(responses), stride), *range(max(0, len(responses) - 1), len(responses))}
    return ((index, responses[index]) for index in sorted(indices))


def _without_one(vector: Vector, outcome: Outcome) -> Iterator[tuple[str, Outcome]]:
    failed = {response.error.id for response in _of_arm(vector, outcome, "error")}
    for index, response in _some(outcome.responses):
        document = json_format.MessageToDict(response)
        if "plan" in document and document["plan"]["id"] in failed:
            continue  # whether a failed item was planned before is the server's matter
        if vector.newer and not document:
            continue  # an arm that the client does not know
        rest = outcome.responses[:index] + outcome.responses[index + 1 :]
        yield f"response {index} missing", replace(outcome, responses=rest)


def _with_one_twice(vector: Vector, outcome: Outcome) -> Iterator[tuple[str, Outcome]]:
    for index, response in _some(outcome.responses):
        if vector.newer and not response.ListFields():
            continue  # an arm that the client does not know
        more = (*outcome.responses[:index], response, *outcome.responses[index:])
        yield f"response {index} twice", replace(outcome, responses=more)


def _with_another_status(_vector: Vector, outcome: Outcome) -> Iterator[tuple[str, Outcome]]:
    yield "another code", replace(outcome, code="UNKNOWN")
    yield "another reason", replace(outcome, reason=outcome.reason + "_")
    if outcome.reason:
        yield "another domain", replace(outcome, domain="monopath.v2")
    yield "one violation more", replace(outcome, violations=(*outcome.violations, ("field", "of nobody")))
    if outcome.violations:
        yield "one violation less", replace(outcome, violations=outcome.violations[1:])


def _with_another_byte(_vector: Vector, outcome: Outcome) -> Iterator[tuple[str, Outcome]]:
    for index, response in _some(outcome.responses):
        document = json_format.MessageToDict(response)
        if "features" not in document:
            continue
        data = bytearray(base64.b64decode(document["features"]["chunk"]["data"]))
        data[len(data) // 2] ^= 0x80
        changed: Any = copy.deepcopy(response)
        changed.features.chunk.data = bytes(data)
        responses: tuple[Message, ...] = (*outcome.responses[:index], changed, *outcome.responses[index + 1 :])
        yield f"response {index} with another byte", replace(outcome, responses=responses)


def _of_arm(vector: Vector, outcome: Outcome, arm: str) -> list[Any]:
    responses: list[Any] = list(outcome.responses)
    return [response for response in responses if vector.path and response.WhichOneof("payload") == arm]


@pytest.mark.parametrize("change", [_without_one, _with_one_twice, _with_another_status, _with_another_byte])
def test_no_vector_passes_with_an_outcome_that_was_changed(change: Any, outcomes: dict[str, Outcome]) -> None:
    passed = []
    count = 0
    for vector in _ALL:
        assert faults(vector, outcomes[vector.name]) == []
        for what, changed in change(vector, outcomes[vector.name]):
            count += 1
            if not faults(vector, changed):
                passed.append((vector.name, what))
    assert passed == []
    assert count > len(_ALL) // 2


def test_a_run_of_nothing_is_no_success(run_command: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_client", lambda kind, _vectors, _servers: ClientReport(kind.name))
    assert run_command("nothing") == 1
