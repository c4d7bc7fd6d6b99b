"""`monopath doctor`, and the checks that it runs, on hosts that are made of files."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import platform
import re
import resource
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import PIL
import pytest

from monopath_server.diagnosis import checks, gpu, processor, resources, software
from monopath_server.diagnosis.cgroups import memory_limit_bytes, processor_quota
from monopath_server.diagnosis.finding import Finding, Level, size_text
from monopath_server.settings import DeviceMode, Settings
from monopath_server.transforms.cuda.probe import CudaDeviceFacts, DeviceProbe
from tests.cli.conftest import Monopath
from tests.support.processes import SOURCE_PATHS, ServerProcess, run_monopath

GIB = 1 << 30
SUBJECTS = (
    "address python monopath server event-loop pillow arithmetic kernel "
    "processor cores memory shared-memory descriptors gpu"
)
ONE_GPU = (CudaDeviceFacts(0, "GPU-a", "NVIDIA A", 80 * GIB),)


@pytest.fixture
def host(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Make the root of a host of these files."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "host" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "host"

    return make


def test_a_host_that_serves_has_no_problem(monopath: Monopath) -> None:
    done = monopath("doctor")
    assert (done.exit_code, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    subjects = [line[9:24].strip().replace(" ", "-") for line in lines if line[:8].strip()]
    assert list(dict.fromkeys(subjects)) == SUBJECTS.split()
    assert re.fullmatch(r"warnings: \d+, problems: 0", last)
    assert f"ok       pillow          {PIL.__version__}, whose resize is PILLOW_" in done.stdout


def test_json_has_every_finding_with_its_advice(monopath: Monopath, server: ServerProcess, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'address = "{server.address}"\nshared_memory_dir = "{tmp_path}"\nworkers = 1\n')
    done = monopath("doctor", "--json", "--config", config)
    assert (done.exit_code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    found = {it["subject"]: it for it in report["findings"]}
    assert found["address"] == {
        "subject": "address",
        "level": "warning",
        "found": f"Cannot listen at {server.address}: address already in use",
        "advice": "Stop what listens there, or another --address",
    }
    assert found["python"]["advice"] is None
    assert found["cores"]["found"] == f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}; workers: 1"
    assert str(tmp_path) in found["shared memory"]["found"]
    levels = [it["level"] for it in report["findings"]]
    assert (report["warning_count"], report["problem_count"]) == (levels.count("warning"), 0)


def test_wrong_settings_are_problems_and_the_rest_is_told_all_the_same(
    monopath: Monopath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("worker = 1\ngrace = -1\npresets = { mine = 'none.json' }\n")
    monkeypatch.setattr("monopath.cli.doctor.os.environ", {"MONOPATH_WORKER": "3", **os.environ})
    done = monopath("doctor", "--config", config)
    assert done.exit_code == 1
    assert f"problem  settings        {config}: worker: expected the key of a setting" in done.stdout
    assert f"problem  settings        {config}: grace: expected 0 to" in done.stdout
    assert "warning  settings        MONOPATH_WORKER: no setting has this variable" in done.stdout
    assert f"problem  settings        preset mine: cannot read {tmp_path / 'none.json'}" in done.stdout
    assert "ok       arithmetic" in done.stdout
    assert done.stdout.endswith(", problems: 3\n")


def test_an_address_that_cannot_be_is_a_problem(monopath: Monopath, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'address = "unix:{tmp_path}/none/socket"\nprocesses = 2\n')
    done = monopath("doctor", "--config", config)
    assert done.exit_code == 1
    for index in range(2):
        assert f"problem  address         Cannot listen at unix:{tmp_path}/none/socket.{index}" in done.stdout


@pytest.mark.parametrize(
    ("missing", "exit_code", "line"),
    [
        (tuple(software.SERVER_PACKAGES), 0, "warning  server          only the client is installed: "),
        (("numba",), 1, "problem  server          not complete: numba is not installed"),
    ],
)
def test_it_works_where_the_server_part_is_missing(
    tmp_path: Path, missing: tuple[str, ...], exit_code: int, line: str
) -> None:
    for name in missing:
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
    done = run_monopath("doctor", environment={"PYTHONPATH": f"{tmp_path}:{SOURCE_PATHS}"})
    assert (done.exit_code, done.stderr) == (exit_code, "")
    assert line in done.stdout
    assert "pip install 'monopath[server]'" in done.stdout
    assert "arithmetic" not in done.stdout
    assert "processor" in done.stdout


def test_the_packages_of_a_server_are_those_of_its_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = {name.partition(">")[0] for name in project["optional-dependencies"]["server"]}
    assert set(software.SERVER_PACKAGES.values()) <= declared


def test_wrong_arithmetic_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("Expected exact arithmetic, got differences: one")

    monkeypatch.setattr("monopath_server.transforms.self_check.check_arithmetic", fail)
    [finding] = software.arithmetic_findings()
    assert (finding.level, finding.found) == (Level.PROBLEM, "Expected exact arithmetic, got differences: one")


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> Any:
        raise OSError("no /proc")

    monkeypatch.setattr(checks, "memory_findings", fail)
    findings = list(checks.diagnose(Settings()))
    [memory] = [finding for finding in findings if finding.subject == "memory"]
    assert (memory.level, memory.found) == (Level.PROBLEM, "the check failed: OSError: no /proc")
    assert findings[-1].subject == "gpu"


@pytest.mark.parametrize(
    ("files", "quota", "limit_bytes"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/b/memory.max": "1073741824\n",
                "sys/fs/cgroup/a/memory.max": "max\n",
            },
            1.5,
            GIB,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
            },
            4.0,
            2 * GIB,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/\n4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
            None,
        ),
        ({}, None, None),
    ],
    ids=["version 2, no limit", "version 2, of a group around it", "version 1 in a container", "version 1", "nothing"],
)
def test_limits_of_control_groups_of_both_versions_are_read(
    host: Callable[[dict[str, str]], Path], files: dict[str, str], quota: float | None, limit_bytes: int | None
) -> None:
    root = host(files)
    assert processor_quota(root) == quota
    assert memory_limit_bytes(root) == limit_bytes


def test_more_threads_than_a_container_gets_time_for_are_a_warning(host: Callable[[dict[str, str]], Path]) -> None:
    root = host({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"})
    cores = _of("cores", processor.processor_findings(Settings(worker_count=8), 2, root))
    assert (cores.level, cores.advice.partition(": ")[2]) == (Level.WARNING, "--workers 2, or a larger quota")
    assert cores.found.endswith("; workers: 16; time of 4")
    assert _of("cores", processor.processor_findings(Settings(worker_count=1), 1, root)).level is Level.OK


def test_more_threads_than_there_are_cores_are_a_warning(host: Callable[[dict[str, str]], Path]) -> None:
    core_count = len(os.sched_getaffinity(0))
    settings = Settings(worker_count=2 * core_count + 1)
    cores = _of("cores", processor.processor_findings(settings, 1, host({})))
    assert (cores.level, cores.advice) == (Level.WARNING, f"--workers {core_count}")


@pytest.mark.parametrize(("flags", "level"), [("sse4_1 avx2 fma other", Level.OK), ("sse4_1", Level.WARNING)])
def test_a_processor_is_told_with_what_makes_it_fast(
    host: Callable[[dict[str, str]], Path], monkeypatch: pytest.MonkeyPatch, flags: str, level: Level
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    root = host({"proc/cpuinfo": f"processor : 0\nmodel name : Some CPU\nflags : {flags}\n"})
    found = _of("processor", processor.processor_findings(Settings(), 1, root))
    assert found.level is level
    assert found.found == f"Some CPU ({', '.join(flag for flag in flags.split() if flag != 'other')})"


@pytest.mark.parametrize(("process_count", "level"), [(1, Level.OK), (2, Level.WARNING)])
def test_settings_that_allow_more_memory_than_there_is_are_a_warning(
    host: Callable[[dict[str, str]], Path], process_count: int, level: Level
) -> None:
    files = {"proc/meminfo": "MemTotal: 8388608 kB\n", "proc/self/cgroup": "0::/\n"}
    root = host(files | {"sys/fs/cgroup/memory.max": f"{6 * GIB}\n"})
    memory = _of("memory", processor.memory_findings(Settings(), process_count, root))
    assert memory.level is level
    assert memory.found.startswith("8 GiB, limited to 6 GiB; the settings allow ")


def test_a_small_folder_of_shared_memory_is_a_warning(
    host: Callable[[dict[str, str]], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocks = os.statvfs_result((4096, 4096, 16384, 16384, 16384, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: blocks)
    settings = Settings(shared_memory_directory=tmp_path)
    root = host({"proc/self/mounts": f"none / ext4 rw 0 0\nnone {tmp_path} tmpfs rw 0 0\n"})
    [small] = resources.shared_memory_findings(settings, 2, root)
    assert small.level is Level.WARNING
    assert small.found == f"{tmp_path}: 64 MiB, 64 MiB free; the settings allow 2 GiB"
    assert "--shm-size" in small.advice
    [enough] = resources.shared_memory_findings(
        dataclasses.replace(settings, max_shared_memory_bytes=32 << 20), 2, root
    )
    assert enough.level is Level.OK


def test_shared_memory_on_a_disk_or_nowhere_is_a_warning_and_none_at_all_is_not(
    host: Callable[[dict[str, str]], Path], tmp_path: Path
) -> None:
    root = host({"proc/self/mounts": "none / ext4 rw 0 0\n"})
    [disk] = resources.shared_memory_findings(Settings(shared_memory_directory=tmp_path), 1, root)
    assert (disk.level, disk.advice) == (Level.WARNING, "A folder in memory: tmpfs, not a disk")
    [nowhere] = resources.shared_memory_findings(Settings(shared_memory_directory=tmp_path / "none"), 1, root)
    assert (nowhere.level, nowhere.found) == (Level.WARNING, f"{tmp_path / 'none'} cannot be written to")
    [off] = resources.shared_memory_findings(Settings(max_shared_memory_bytes=0), 1, root)
    assert off.level is Level.OK


@pytest.mark.parametrize(
    ("hard", "level"), [(1024, Level.WARNING), (4096, Level.OK), (resource.RLIM_INFINITY, Level.OK)]
)
def test_few_descriptors_are_a_warning(monkeypatch: pytest.MonkeyPatch, hard: int, level: Level) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (1024, hard))
    [finding] = resources.descriptor_findings()
    assert finding.level is level


@pytest.mark.parametrize(
    ("probe", "torch", "expected"),
    [
        (DeviceProbe(False, (), ("no driver",)), "2.9.0", [("cuda", Level.WARNING)]),
        (DeviceProbe(False, ONE_GPU, ("no compiler",)), "2.9.0", [("gpu", Level.OK), ("cuda", Level.WARNING)]),
        (DeviceProbe(True, ONE_GPU, ()), "2.9.0", [("gpu", Level.OK), ("cuda", Level.OK)]),
        (DeviceProbe(True, ONE_GPU, ()), "2.9.0+cpu", [("gpu", Level.OK), ("cuda", Level.WARNING)]),
    ],
)
def test_a_gpu_is_told_with_what_it_lacks(
    host: Callable[[dict[str, str]], Path],
    monkeypatch: pytest.MonkeyPatch,
    probe: DeviceProbe,
    torch: str,
    expected: list[tuple[str, Level]],
) -> None:
    monkeypatch.setattr(gpu, "probe_cuda", lambda: probe)
    monkeypatch.setattr(gpu, "_driver_version", lambda: None)
    monkeypatch.setattr("importlib.metadata.version", lambda _package: torch)
    findings = list(gpu.gpu_findings(Settings(), host({"dev/nvidia0": ""})))
    assert [(finding.subject, finding.level) for finding in findings] == expected


def test_a_host_without_a_gpu_lacks_nothing(
    host: Callable[[dict[str, str]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "probe_cuda", lambda: DeviceProbe(False, (), ("torch is not installed", "no driver")))
    [finding] = gpu.gpu_findings(Settings(), host({"dev/null": ""}))
    assert (finding.level, finding.found) == (
        Level.OK,
        "none: DEFERRED_CUDA is refused, the other paths are served",
    )


@pytest.mark.parametrize(("mode", "level"), [(DeviceMode.OFF, Level.OK), (DeviceMode.INTERPRETER, Level.WARNING)])
def test_a_gpu_that_is_not_asked_for_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, mode: DeviceMode, level: Level
) -> None:
    monkeypatch.setattr(gpu, "probe_cuda", lambda: pytest.fail("asked the driver"))
    [finding] = gpu.gpu_findings(Settings(cuda=mode))
    assert finding.level is level


class ManagementLibrary:
    """Stands in for NVML."""

    def __init__(self, name: str) -> None:
        assert name == "libnvidia-ml.so.1"

    def nvmlInit_v2(self) -> int:  # noqa: N802 - the library's names
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, size_bytes: int) -> int:  # noqa: N802
        assert size_bytes > 80
        text.value = b"580.65.06"
        return 0


def test_the_version_of_the_driver_is_asked_of_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", ManagementLibrary)
    assert gpu._driver_version() == "580.65.06"


def test_sizes_are_told_with_few_digits() -> None:
    sizes = (0, 1023, 1024, 1536 << 20, 64 << 20, 2048 << 30)
    assert [size_text(size) for size in sizes] == ["0 B", "1023 B", "1 KiB", "1.5 GiB", "64 MiB", "2048 GiB"]


def test_another_system_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _of("system", software.package_findings()).level is Level.WARNING


def _of(subject: str, findings: Iterable[Finding]) -> Finding:
    [found] = [finding for finding in findings if finding.subject == subject]
    return found
