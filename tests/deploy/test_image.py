"""The Dockerfile, read and not built (there is no Docker here): it names files, modules and packages that exist."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.manifests import containers
from tests.deploy.serve_arguments import parse_serve

ROOT = Path(__file__).parents[2]
FILE = ROOT / "server" / "deploy" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEXT = FILE.read_text("utf-8")


def _instructions(name: str) -> list[str]:
    """The rest of each instruction of a name, its lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE))
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def _stages() -> dict[str, str]:
    """What each stage is from."""
    return {name: base for base, name in (line.split(" AS ") for line in _instructions("FROM"))}


def _copied() -> Iterator[str]:
    for line in _instructions("COPY"):
        *sources, _ = line.split()
        if not sources[0].startswith("--from="):
            yield from sources


def test_stages_and_what_is_copied_exist() -> None:
    stages = _stages()
    for line in _instructions("COPY"):
        if match := re.match(r"--from=(\S+)", line):
            assert match[1] in stages
    copied = set(_copied())
    assert {"server/monopath_server", "stubs/python", "pyproject.toml", "constraints.txt"} <= copied
    for source in copied:
        assert (ROOT / source).exists(), source
    for bases in set(stages.values()) - set(stages):
        assert re.fullmatch(r"python:3\.\d+-slim-\w+", bases)


def test_what_is_copied_is_all_that_is_sent() -> None:
    lines = FILE.with_name("Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert "*" in lines
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == set(_copied())


def test_what_the_build_needs_is_copied() -> None:
    """setuptools reads these files, and finds packages in these folders."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    copied = set(_copied())
    assert {PROJECT["readme"], *PROJECT["license-files"]} <= copied
    for folder in tool["packages"]["find"]["where"]:
        assert any(source.startswith(folder) for source in copied)


def test_extras_modules_and_commands_exist() -> None:
    for extras in re.findall(r"'\.\[([\w,]+)\]'", TEXT):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    modules = re.findall(r"python -m ([\w.]+)", "\n".join(_instructions("RUN")))
    assert set(modules) == {"venv", "monopath_server.transforms.self_check"}
    for module in modules:
        assert importlib.util.find_spec(module) is not None
    [entry], [command] = map(_instructions, ("ENTRYPOINT", "CMD"))
    assert set(json.loads(entry)) <= set(PROJECT["scripts"])
    assert json.loads(command) == ["serve"]
    [arguments] = re.findall(r"#   docker run .* monopath:cpu serve (.*)", TEXT)
    assert parse_serve(arguments.split())["address"] == "0.0.0.0:50051"


@pytest.mark.parametrize("stage", ["cpu", "cuda"])
def test_an_image_compiles_its_kernels_as_the_user_that_serves(stage: str) -> None:
    lines = re.split(r"^FROM ", TEXT, flags=re.MULTILINE)
    [body] = [text for text in lines if re.match(rf"\S+ AS {stage}\n", text)]
    user = re.search(r"^USER (\d+):(\d+)$", body, re.MULTILINE)
    assert user is not None
    assert int(user[1]) > 0
    assert body.index("USER") < body.index("self_check")
    # Triton's launcher is compiled on the first host with a GPU.
    assert ("gcc libc6-dev" in body) == (stage == "cuda")


def test_the_manifests_use_these_images() -> None:
    [cache] = re.findall(r"NUMBA_CACHE_DIR=(\S+)/numba", TEXT)
    users = set(re.findall(r"^USER (\d+)", TEXT, re.MULTILINE))
    for container in containers():
        name, _, tag = container.spec["image"].partition(":")
        if name == "monopath":
            assert tag in _stages()
            assert users == {str(container.pod["securityContext"]["runAsUser"])}
            if container.serves:
                assert cache in container.volume_of
            else:
                assert container.spec["command"] == ["cp", "--recursive", f"{cache}/.", "/kernels"]
