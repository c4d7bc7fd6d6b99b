"""The other languages' conformance programs: what they need, how it is installed, how they are built."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.clients import REPOSITORY, ClientKind, Program

__all__ = ["TOOLCHAINS", "Toolchain", "ToolchainMissing", "build", "built"]

_LOGS = REPOSITORY / "build" / "conformance"
_INSTALL_SECONDS = 900
_BUILD_SECONDS = 1200
_INSTALLING = threading.Lock()
"""Debian installs for one at a time, and two languages share packages."""


class ToolchainMissing(Exception):
    """A program cannot be built here; the text says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a build."""

    command: Sequence[str]
    result: Path | None = None
    """With `source`: the command is left out where this is there, and no older."""
    source: Path | None = None

    def is_done(self) -> bool:
        """Nothing changed since the command was run."""
        result, source = self.result, self.source
        return bool(result and source and result.exists() and result.stat().st_mtime >= source.stat().st_mtime)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One language."""

    name: str
    """The client's, in the table."""
    program: Program
    product: Path
    """Is there where the program was built."""
    builds: Sequence[Step]
    """What builds it, one after the other."""
    packages: Mapping[str, str]
    """Debian's packages that the build needs, each with the command that it brings; "" for a library."""
    directory: Path = REPOSITORY

    @property
    def kind(self) -> ClientKind:
        """The client."""
        return ClientKind(self.name, self.program)


_TYPESCRIPT = REPOSITORY / "stubs" / "typescript"
_TYPESCRIPT_MAIN = _TYPESCRIPT / "dist" / "conformance" / "main.js"
_CPP_PROGRAM = REPOSITORY / "build" / "cpp" / "monopath_conformance"
_GO_PROGRAM = REPOSITORY / "build" / "go" / "monopath-conformance"
_RUST_PROGRAM = REPOSITORY / "build" / "rust" / "release" / "monopath-conformance"

TOOLCHAINS = (
    Toolchain(
        name="TypeScript",
        program=Program(("node", _TYPESCRIPT_MAIN)),
        product=_TYPESCRIPT_MAIN,
        builds=(
            Step(
                ("npm", "ci", "--no-audit", "--no-fund"),
                result=_TYPESCRIPT / "node_modules" / ".package-lock.json",
                source=_TYPESCRIPT / "package-lock.json",
            ),
            Step(("npm", "run", "build")),
        ),
        packages={"nodejs": "node", "npm": "npm"},
        directory=_TYPESCRIPT,
    ),
    Toolchain(
        name="C++",
        program=Program((_CPP_PROGRAM,)),
        product=_CPP_PROGRAM,
        builds=(
            Step(("cmake", "-S", "stubs/cpp", "-B", "build/cpp", "-DCMAKE_BUILD_TYPE=Release")),
            Step(("cmake", "--build", "build/cpp", "--target", "monopath_conformance", "--parallel", "2")),
        ),
        packages={
            "cmake": "cmake",
            "make": "make",
            "g++": "g++",
            "protobuf-compiler": "protoc",
            "protobuf-compiler-grpc": "grpc_cpp_plugin",
            "libprotobuf-dev": "",
            "libgrpc++-dev": "",
        },
    ),
    Toolchain(
        name="Go",
        program=Program((_GO_PROGRAM,)),
        product=_GO_PROGRAM,
        builds=(Step(("stubs/go/debian-build.sh", "build/go")),),
        packages={
            "golang-go": "go",
            "protobuf-compiler": "protoc",
            "protoc-gen-go": "protoc-gen-go",
            "protoc-gen-go-grpc": "protoc-gen-go-grpc",
            "golang-google-grpc-dev": "",
            "golang-google-protobuf-dev": "",
            "golang-google-genproto-dev": "",
            "golang-github-golang-protobuf-1-5-dev": "",
        },
    ),
    Toolchain(
        name="Rust",
        program=Program((_RUST_PROGRAM,)),
        product=_RUST_PROGRAM,
        builds=(Step(("stubs/rust/debian-cargo.sh", "build", "--release", "--workspace", "--bins", "--examples")),),
        packages={
            "cargo": "cargo",
            "protobuf-compiler": "protoc",
            "librust-base64-dev": "",
            "librust-futures-util-dev": "",
            "librust-h2-dev": "",
            "librust-percent-encoding-dev": "",
            "librust-prost-build-dev": "",
            "librust-prost-dev": "",
            "librust-prost-types-dev": "",
            "librust-serde-json-dev": "",
            "librust-tokio-dev": "",
        },
    ),
)


def built(toolchain: Toolchain) -> bool:
    """Return whether the program was built before and can be started."""
    return toolchain.product.exists() and shutil.which(str(toolchain.program.command[0])) is not None


def build(toolchain: Toolchain, say: Callable[[str], None]) -> None:
    """Build a program; first install what it needs, where this process may. Raises ToolchainMissing."""
    _LOGS.mkdir(parents=True, exist_ok=True)
    _log(toolchain).unlink(missing_ok=True)
    _install(toolchain, say)
    missing = [command for command in toolchain.packages.values() if command and shutil.which(command) is None]
    if missing:
        raise ToolchainMissing(f"no {', '.join(missing)}; Debian's packages: {' '.join(toolchain.packages)}")
    say(f"Building the conformance program in {toolchain.name}")
    for step in toolchain.builds:
        if not step.is_done():
            _run(toolchain, step.command, _BUILD_SECONDS)
    if not built(toolchain):
        raise ToolchainMissing(f"the build ended well, but made no {toolchain.product.relative_to(REPOSITORY)}")


def _install(toolchain: Toolchain, say: Callable[[str], None]) -> None:
    """Install Debian packages. Those of a user without rights, or of another system, are the user's own matter."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    with _INSTALLING:
        # What brings a command may have come another way, and then its package would be in the way of that.
        missing = [
            package
            for package, command in toolchain.packages.items()
            if not (shutil.which(command) if command else _is_installed(package))
        ]
        if not missing:
            return
        say(f"Installing {' '.join(missing)} for {toolchain.name}")
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        install = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *missing)
        try:
            _run(toolchain, install, _INSTALL_SECONDS, environment)
        except ToolchainMissing:
            # The lists of packages may be old, or not there yet.
            _run(toolchain, ("apt-get", "update", "--quiet"), _INSTALL_SECONDS, environment)
            _run(toolchain, install, _INSTALL_SECONDS, environment)


def _is_installed(package: str) -> bool:
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Status}", package], capture_output=True, text=True, check=False
    )
    return shown.stdout == "install ok installed"


def _log(toolchain: Toolchain) -> Path:
    return _LOGS / f"{toolchain.name.lower().replace('+', 'p')}.log"


def _run(
    toolchain: Toolchain, command: Sequence[str], timeout_seconds: float, environment: Mapping[str, str] | None = None
) -> None:
    """Run a command; what it says goes to a file, and its end into the error."""
    log = _log(toolchain)
    with log.open("a") as output:
        output.write(f"$ {' '.join(command)}\n")
        output.flush()
        try:
            done = subprocess.run(
                command,
                cwd=toolchain.directory,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_seconds,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainMissing(f"`{' '.join(command)}`: {error}") from error
    if done.returncode:
        last_lines = "\n".join(log.read_text().splitlines()[-15:])
        raise ToolchainMissing(f"`{' '.join(command)}` ended with {done.returncode}:\n{last_lines}")
