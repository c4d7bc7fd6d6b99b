"""The oldest gRPC and protobuf that the package allows run the whole suite."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.conformance.clients import REPOSITORY, ClientKind, Program
from tests.conformance.suite import Servers, State, run_client
from tests.contract.programs import run_program
from tests.contract.vector_cases import load_vectors

_OLD_PYTHON = REPOSITORY / ".venv-generate" / "bin" / "python"
"""`make check` makes it, and `make test` with it: no test skips."""
_PACKAGES = ("grpcio", "protobuf", "googleapis-common-protos")


@pytest.mark.parametrize("module", ["stubs", "stubs_asyncio"])
def test_the_oldest_runtime_runs_every_vector(module: str, servers: Servers, tmp_path: Path) -> None:
    # The generated package alone: beside it stands the typed client, which needs more than gRPC and protobuf.
    shutil.copytree(REPOSITORY / "stubs" / "python" / "monopath" / "v1", tmp_path / "monopath" / "v1")
    program = Program((_OLD_PYTHON, "-m", f"tests.conformance.programs.{module}"), {"PYTHONPATH": str(tmp_path)})
    vectors = load_vectors()
    report = run_client(ClientKind("oldest", program), vectors, servers)
    assert report.fault == ""
    assert [(vector.name, vector.texts) for vector in report.vectors if vector.state is not State.PASSED] == []
    assert len(report.vectors) == len(vectors)


def test_the_oldest_runtime_is_the_one_that_the_package_declares() -> None:
    code = f"import importlib.metadata as m, json; print(json.dumps({{name: m.version(name) for name in {_PACKAGES}}}))"
    installed = json.loads(run_program([_OLD_PYTHON, "-c", code]).stdout)
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    for package in _PACKAGES:
        floor = next(line.removeprefix(f"{package}>=") for line in declared if line.startswith(f"{package}>="))
        # 5.29.0, which the generated code names, was withdrawn from the registry.
        floor = {"5.29.0": "5.29.1"}.get(floor, floor)
        assert installed[package].split(".")[: floor.count(".") + 1] == floor.split(".")
