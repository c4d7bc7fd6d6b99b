"""The probe of the CUDA path, against drivers that are only played."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from monopath_server.transforms.cuda import probe


class PlayedDriver:
    """Answers like libcuda with some devices. Arguments are ctypes objects, as the real functions get them."""

    def __init__(self, names: list[str], start_code: int = 0) -> None:
        self.names = names
        self.start_code = start_code
        self.asked: list[str] = []

    def __getattr__(self, function: str) -> Any:
        def call(*arguments: Any) -> int:
            self.asked.append(function)
            target = getattr(arguments[0], "_obj", arguments[0])
            match function:
                case "cuInit":
                    return self.start_code
                case "cuDeviceGetCount":
                    target.value = len(self.names)
                case "cuDeviceGet":
                    target.value = arguments[1]
                case "cuDeviceGetUuid":
                    target[:] = range(arguments[1].value, arguments[1].value + 16)
                case "cuDeviceGetName":
                    target.value = self.names[arguments[2].value].encode()
                case "cuDeviceTotalMem_v2":
                    target.value = 1000 + arguments[1].value
                case _:
                    return 1
            return 0

        return call


@pytest.fixture
def with_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    (tmp_path / "Python.h").touch()


def use_driver(monkeypatch: pytest.MonkeyPatch, driver: PlayedDriver) -> None:
    monkeypatch.setattr(probe, "_load_driver", lambda: driver)


@pytest.mark.usefixtures("with_compiler")
def test_devices_are_described_without_making_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = PlayedDriver(["NVIDIA H200", "NVIDIA H200"])
    use_driver(monkeypatch, driver)
    result = probe.probe_cuda()
    assert result.available
    assert result.missing == ()
    assert [device.index for device in result.devices] == [0, 1]
    assert result.devices[1].uuid == "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"
    assert result.devices[1].name == "NVIDIA H200"
    assert result.devices[1].memory_bytes == 1001
    assert not any("Ctx" in function for function in driver.asked)


@pytest.mark.usefixtures("with_compiler")
@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (PlayedDriver([]), "no CUDA device is visible to this process"),
        (PlayedDriver([], start_code=100), "no CUDA device is visible to this process"),
        (PlayedDriver([], start_code=804), "the NVIDIA driver cannot be started (error 804 of the driver)"),
    ],
)
def test_a_driver_without_a_device_is_said_to_be_that(
    monkeypatch: pytest.MonkeyPatch, driver: PlayedDriver, reason: str
) -> None:
    use_driver(monkeypatch, driver)
    result = probe.probe_cuda()
    assert not result.available
    assert result.missing == (reason,)


@pytest.mark.usefixtures("with_compiler")
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver(monkeypatch, PlayedDriver(["NVIDIA H200"]))
    monkeypatch.setattr(probe, "_is_installed", lambda package: package != "triton")
    result = probe.probe_cuda()
    assert not result.available
    assert result.missing == ("triton is not installed",)


@pytest.mark.usefixtures("with_compiler")
def test_a_host_without_a_compiler_serves_from_a_filled_cache_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_driver(monkeypatch, PlayedDriver(["NVIDIA H200"]))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert probe.probe_cuda().missing == (
        "no C compiler is installed (gcc, clang or what CC names) and Triton's cache is empty",
    )
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / "cuda_utils.cpython-311-x86_64-linux-gnu.so").touch()
    assert probe.probe_cuda().available


@pytest.mark.usefixtures("with_compiler")
def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_driver(monkeypatch, PlayedDriver(["NVIDIA H200"]))
    (tmp_path / "Python.h").unlink()
    assert probe.probe_cuda().missing == (
        "Python's C headers are not installed (Python.h) and Triton's cache is empty",
    )


def test_probing_imports_neither_torch_nor_triton() -> None:
    program = (
        "import sys; from monopath_server.transforms.cuda.probe import probe_cuda; probe_cuda();"
        "sys.exit(any(name in sys.modules for name in ('torch', 'triton')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
