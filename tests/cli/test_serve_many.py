"""`monopath serve --processes` and `--devices`."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monopath import Client
from monopath.cli import serve_many
from monopath.cli.configuration.resolve import resolve
from monopath.cli.faults import UserFault
from monopath.cli.serve_many import plan_processes
from monopath_server.transforms.cuda.probe import CudaDeviceFacts, DeviceProbe
from tests.cli.conftest import Monopath
from tests.support.processes import SOURCE_PATHS, Finished, run_monopath, serving

BOUND_SECONDS = 90.0
TWO_DEVICES = DeviceProbe(
    True, (CudaDeviceFacts(0, "GPU-a", "NVIDIA A", 1), CudaDeviceFacts(1, "GPU-b", "NVIDIA B", 1)), ()
)


@pytest.mark.timeout(300)
def test_several_processes_are_one_target_and_a_killed_one_comes_back(tmp_path: Path, images: list[Path]) -> None:
    ready_file, config = tmp_path / "ready.json", tmp_path / "config.toml"
    config.write_text("processes = 2\nmax_unfinished_items = 3\n")
    arguments = ("--config", config, "--address", "127.0.0.1:0", "--ready-file", ready_file, "--cuda", "off")
    with serving(*arguments) as server:
        before = json.loads(ready_file.read_text())
        first, second = before["processes"]
        assert before["address"] == server.address == f"ipv4:{first['address']},{second['address']}"
        assert before["pid"] == server.pid
        assert len({first["pid"], second["pid"], server.pid}) == 3
        # A terminal's Ctrl-C must not reach them besides the supervisor's signal.
        assert os.getpgid(second["pid"]) == second["pid"]
        for process in (first, second):
            with Client(process["address"]) as client:
                assert client.capabilities(timeout_seconds=30).limits.max_unfinished_items == 3
        os.kill(second["pid"], signal.SIGKILL)
        after = _when(lambda: _ready(ready_file), lambda facts: facts != before)
        assert after["address"] == before["address"]
        assert after["processes"][0] == first
        assert after["processes"][1]["pid"] != second["pid"]
        with (
            Client(server.address) as client,
            client.deferred_cpu(preset="kimi-k3", data_type="uint8") as stream,
        ):
            assert [result.error is None for result in stream.map([images[0], images[2]])] == [True, True]
        done = server.stop()
        assert (done.exit_code, done.stdout) == (0, "")
        [report] = done.stderr.splitlines()
        assert f"Process 1 at {second['address']} (pid {second['pid']}) ended with signal 9 (SIGKILL)" in report
    assert not ready_file.exists()
    for process in after["processes"]:
        with pytest.raises(ProcessLookupError):
            os.kill(process["pid"], 0)


@pytest.mark.timeout(300)
def test_sockets_of_several_processes_are_one_target(tmp_path: Path, images: list[Path]) -> None:
    with serving("--processes", "2", "--address", f"unix:{tmp_path}/x.sock", "--cuda", "off") as server:
        assert server.address == f"unix:{tmp_path}/x.0.sock,{tmp_path}/x.1.sock"
        for target in (server.address, [f"unix:{tmp_path}/x.1.sock", f"unix:{tmp_path}/x.0.sock"]):
            with (
                Client(target) as client,
                client.deferred_cpu(preset="kimi-k3", data_type="uint8") as stream,
            ):
                results = list(stream.map([images[0]] * 8, streams=2))
                assert [result.error for result in results] == [None] * 8
        assert server.stop() == Finished(0, "", "")


def test_what_is_wrong_with_all_processes_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise ModuleNotFoundError('No module named numba', name='numba')\n")
    environment = {"PYTHONPATH": f"{tmp_path}:{SOURCE_PATHS}"}
    done = run_monopath("serve", "--processes", "2", "--address", "127.0.0.1:0", environment=environment)
    assert (done.exit_code, done.stdout) == (2, "")
    explanation, report = done.stderr.splitlines()
    assert explanation.startswith("`monopath serve` needs monopath[server] (numba is not installed)")
    assert report.endswith("Process 0 cannot start (exit code 2)")


def test_every_process_gets_the_settings_and_its_part_of_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(7)))
    environment = {"MONOPATH_MAX_STREAMS": "5", "MONOPATH_CONFIG": "", "PATH": "/bin", "MONOPATH_TOKEN": "a client's"}
    resolution = resolve({"processes": "3", "address": "127.0.0.1:7", "ready_file": "ready"}, environment)
    plans = plan_processes(resolution, environment)
    assert [plan.command(plan.address)[5:] for plan in plans] == [
        [f"--address=127.0.0.1:{port}", "--workers=2", "--max-streams=5"] for port in (7, 8, 9)
    ]
    assert all(plan.environment == {"PATH": "/bin", "MONOPATH_TOKEN": "a client's"} for plan in plans)
    chosen = plan_processes(resolve({"processes": "2", "workers": "9"}, {}), {})
    assert all("--workers=9" in plan.command(plan.address) for plan in chosen)


def test_every_process_sees_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_many, "probe_cuda", lambda: TWO_DEVICES)
    plans = plan_processes(resolve({"devices": "cuda:1,cuda:0"}, {}), {"PATH": "/bin"})
    assert [plan.environment for plan in plans] == [
        {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "GPU-b"},
        {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "GPU-a"},
    ]
    assert [plan.address for plan in plans] == ["127.0.0.1:50051", "127.0.0.1:50052"]
    # One device is a process too: this one has asked the driver, and would see all devices.
    assert len(plan_processes(resolve({"devices": "cuda:1"}, {}), {})) == 1


def test_one_process_is_this_one() -> None:
    assert plan_processes(resolve({}, {}), {}) == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"processes": "2", "devices": "all"}, "Expected --processes or --devices, got both"),
        ({"devices": "all", "cuda": "off"}, "--devices: expected --cuda auto or required, got off"),
        ({"devices": "cuda:2"}, "--devices: expected some of cuda:0"),
        (
            {"processes": "3", "address": "127.0.0.1:50051", "metrics_address": "127.0.0.1:50053"},
            "--metrics-address: expected ports apart from the 3 of --address, got 127.0.0.1:50053 for both",
        ),
        ({"processes": "2", "address": "localhost:1"}, "--address: expected an IP address"),
        ({"processes": "3", "address": "127.0.0.1:65534"}, "--address: expected a port up to 65535"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, object], complaint: str
) -> None:
    monkeypatch.setattr(serve_many, "probe_cuda", lambda: TWO_DEVICES)
    with pytest.raises(UserFault) as caught:
        plan_processes(resolve(given, {}), {})
    assert caught.value.text.startswith(complaint)
    assert caught.value.exit_code == 2


def test_an_address_in_use_is_refused_before_anything_is_started(monopath: Monopath, server: Any) -> None:
    host, _, port = server.address.rpartition(":")
    done = monopath("serve", "--processes", "2", "--address", f"{host}:{int(port) - 1}")
    assert done == Finished(1, "", f"Cannot listen at {server.address}: address already in use\n")


def _ready(path: Path) -> Any:
    return json.loads(path.read_text())


def _when(read: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """Read, again and again within a bound, until what was read is so."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not is_so(value := read()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value
