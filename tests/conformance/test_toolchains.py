"""Building other languages' programs: what is missing is told, and a build that fails is."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance import toolchains
from tests.conformance.clients import REPOSITORY, Program
from tests.conformance.toolchains import TOOLCHAINS, Step, Toolchain, ToolchainMissing, build, built


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """One that makes a program out of a shell script, for a user who may install nothing."""
    monkeypatch.setattr(toolchains, "_LOGS", tmp_path / "logs")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    product = tmp_path / "program"
    return Toolchain(
        name="Shell",
        program=Program(("sh", product)),
        product=product,
        builds=(Step(("sh", "-c", f"echo built; echo exit 0 >{product}")),),
        packages={"dash": "sh", "libnothing-dev": ""},
        directory=tmp_path,
    )


def test_a_program_is_built_and_can_be_started(toolchain: Toolchain) -> None:
    said: list[str] = []
    assert not built(toolchain)
    build(toolchain, said.append)
    assert built(toolchain)
    assert said == ["Building the conformance program in Shell"]


def test_a_missing_command_is_named_with_the_packages_that_bring_it(toolchain: Toolchain) -> None:
    missing = replace(toolchain, packages={"nothing-bin": "no-such-command"})
    with pytest.raises(ToolchainMissing, match="no no-such-command; Debian's packages: nothing-bin"):
        build(missing, print)


def test_a_build_that_fails_tells_its_last_lines(toolchain: Toolchain) -> None:
    failing = replace(toolchain, builds=(Step(("sh", "-c", "echo why; exit 4")),))
    with pytest.raises(ToolchainMissing, match=r"ended with 4:\n(.*\n)*why"):
        build(failing, print)


def test_a_build_that_makes_nothing_is_told(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchains, "REPOSITORY", tmp_path)
    with pytest.raises(ToolchainMissing, match="made no program"):
        build(replace(toolchain, builds=(Step(("true",)),)), print)


def test_a_step_is_left_out_only_where_its_result_is_as_new_as_its_source(tmp_path: Path) -> None:
    result, source = tmp_path / "result", tmp_path / "source"
    step = Step(("true",), result=result, source=source)
    source.touch()
    assert not step.is_done()
    result.touch()
    os.utime(result, (2.0, 2.0))
    os.utime(source, (1.0, 1.0))
    assert step.is_done()
    os.utime(source, (3.0, 3.0))
    assert not step.is_done()
    assert not Step(("true",)).is_done()


def test_root_installs_what_is_missing_and_updates_the_lists_where_that_fails(
    toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, ...]] = []

    def run(_toolchain: Toolchain, command: tuple[str, ...], *_more: object) -> None:
        ran.append(tuple(command[:2]))
        if len(ran) == 1:
            raise ToolchainMissing("no list of packages")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda command: None if command == "no-such-command" else "/bin/sh")
    monkeypatch.setattr(toolchains, "_is_installed", lambda package: package != "libnothing-dev")
    monkeypatch.setattr(toolchains, "_run", run)
    packages = {"dash": "sh", "libnothing-dev": "", "nothing-bin": "no-such-command"}
    said: list[str] = []
    with pytest.raises(ToolchainMissing, match="no no-such-command"):
        build(replace(toolchain, packages=packages), said.append)
    assert ran == [("apt-get", "install"), ("apt-get", "update"), ("apt-get", "install")]
    assert said == ["Installing libnothing-dev nothing-bin for Shell"]


@pytest.mark.parametrize("toolchain_of_list", TOOLCHAINS, ids=lambda toolchain: toolchain.name)
def test_every_toolchain_is_in_this_checkout(toolchain_of_list: Toolchain) -> None:
    assert toolchain_of_list.directory.is_dir()
    assert toolchain_of_list.product.is_relative_to(REPOSITORY)
    assert all(toolchain_of_list.packages)
