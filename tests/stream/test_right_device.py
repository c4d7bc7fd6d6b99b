"""Case 14: a server that serves on the CPU alone never touches a GPU, whatever it decodes."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from PIL import Image

from tests.support.processes import serving
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, raw_pixels

USES_THE_DRIVER = "import ctypes; ctypes.CDLL('libcuda.so.1'); print(open('/proc/self/maps').read())"


def gpu_traces(pid: int) -> set[str]:
    """Libraries of NVIDIA's that a process has mapped, libraries that would load them, and devices that it has open."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    found = {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(descriptor.readlink()))
    return {path for path in found if any(name in path for name in ("libcuda", "nvidia", "libtorch", "libtriton"))}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A host that has a libcuda for whoever asks for it."""
    loaded = Path("/proc/self/maps").read_text().splitlines()
    library = next(path for line in loaded if "libm.so" in (path := line.split(maxsplit=5)[-1]))
    shutil.copy(library, tmp_path / "libcuda.so.1")
    return {"LD_LIBRARY_PATH": str(tmp_path)}


def test_a_process_that_asks_for_the_driver_would_be_noticed(environment: dict[str, str]) -> None:
    maps = subprocess.run(
        [sys.executable, "-c", USES_THE_DRIVER],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert f"{environment['LD_LIBRARY_PATH']}/libcuda.so.1" in maps


def jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(photo(700, 500)).save(buffer, "JPEG")
    return buffer.getvalue()


async def use_everything(address: str) -> None:
    """Decode, resize and convert on all workers."""
    pixels = photo(300, 200)
    sources = [encoded(jpeg()), encoded(png(pixels)), raw_pixels(pixels.tobytes(), 300, 200)]
    requests: list[Any] = [make_item(number, sources[number % 3]) for number in range(1, 33)]
    async with grpc.aio.insecure_channel(address) as channel:
        for config in (make_config(), make_config("deferred_cuda")):
            is_cuda = config.config.DESCRIPTOR.name == "DeferredCudaConfig"
            stream = RawStream(channel, "deferred_cuda" if is_cuda else "deferred_cpu")
            await stream.send(config)
            if is_cuda:
                assert await stream.finish() == "FAILED_PRECONDITION"
                assert stream.reason == "DEVICE_UNAVAILABLE"
                continue
            await stream.read_until("ready")
            await stream.send(*requests)
            assert await stream.finish() == "OK"
            assert all(outcome.completion is not None for outcome in stream.outcomes.values())


@pytest.mark.asyncio
async def test_a_server_of_the_cpu_never_touches_a_gpu(environment: dict[str, str]) -> None:
    with serving("--address", "127.0.0.1:0", "--cuda", "off", "--workers", "8", environment=environment) as server:
        assert gpu_traces(server.pid) == set()
        await use_everything(server.address)
        assert gpu_traces(server.pid) == set()
