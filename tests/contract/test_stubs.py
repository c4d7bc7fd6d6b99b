"""The committed Python stubs: what the pinned toolchain makes of protos/, and loadable at the floor it sets."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.contract.programs import run_program

_ROOT = Path(__file__).resolve().parents[2]
_STUBS = _ROOT / "stubs" / "python"
_GENERATE = _ROOT / "protos" / "generate.sh"
_OLD_PYTHON = _ROOT / ".venv-generate" / "bin" / "python"
"""The pinned toolchain, which is also the oldest runtime that the stubs allow. `make setup` makes it: no test skips."""


def _files(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


def _floors() -> dict[str, tuple[int, ...]]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    floors = [re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement) for requirement in project["dependencies"]]
    return {floor[1]: tuple(map(int, floor[2].split("."))) for floor in floors if floor}


def _generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program([_GENERATE, *arguments])


def test_the_stubs_regenerate_without_a_difference_and_in_silence(tmp_path: Path) -> None:
    result = _generate(str(tmp_path))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["monopath"]
    assert _files(tmp_path / "monopath" / "v1") == _files(_STUBS / "monopath" / "v1")


def test_generating_replaces_stale_files_and_keeps_their_neighbours(tmp_path: Path) -> None:
    stale = tmp_path / "monopath" / "v1" / "stale_pb2.py"
    neighbour = tmp_path / "monopath" / "client.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    neighbour.touch()
    assert _generate(str(tmp_path)).returncode == 0
    assert neighbour.exists()
    assert not stale.exists()


def test_generating_without_a_directory_is_refused() -> None:
    result = _generate()
    assert result.returncode == 2
    assert "Expected one argument" in result.stderr


def test_the_stubs_demand_no_more_than_the_package_declares() -> None:
    floors = _floors()
    demanded_protobuf = set()
    for text in _files(_STUBS / "monopath" / "v1").values():
        for match in re.finditer(r"ValidateProtobufRuntimeVersion\(\s*[\w.]+,\s*(\d+),\s*(\d+),\s*(\d+)", text):
            demanded_protobuf.add(tuple(map(int, match.groups())))
    service = (_STUBS / "monopath" / "v1" / "service_pb2_grpc.py").read_text()
    demanded_grpc = re.search(r"GRPC_GENERATED_VERSION = '([\d.]+)'", service)
    assert demanded_protobuf == {floors["protobuf"]}
    assert demanded_grpc is not None
    assert tuple(map(int, demanded_grpc[1].split("."))) == floors["grpcio"]


def test_the_oldest_runtime_imports_the_stubs_and_makes_the_round_trip(tmp_path: Path) -> None:
    # The generated package alone: beside it stands the client, which needs more than the toolchain has.
    shutil.copytree(_STUBS / "monopath" / "v1", tmp_path / "monopath" / "v1")
    result = run_program(
        [_OLD_PYTHON, Path(__file__).with_name("floor_round_trip.py")], environment={"PYTHONPATH": str(tmp_path)}
    )
    assert result.returncode == 0, result.stderr
    grpc_version, protobuf_version = (tuple(map(int, text.split("."))) for text in result.stdout.split())
    floors = _floors()
    assert grpc_version == floors["grpcio"]
    assert protobuf_version[:2] == floors["protobuf"][:2]


def test_importing_the_stubs_imports_nothing_of_the_server() -> None:
    program = (
        "import sys, monopath.v1.service_pb2, monopath.v1.service_pb2_grpc\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('monopath_server', 'torch', 'PIL')])"
    )
    result = run_program([sys.executable, "-c", program], environment={"PYTHONPATH": str(_STUBS)})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.strip() == "[]"
