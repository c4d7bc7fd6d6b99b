"""The systemd unit is valid, starts a server that understands its settings, and gives it time to stop."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.serve_arguments import parse_serve, stopping_seconds

UNIT = Path(__file__).parents[2] / "server" / "deploy" / "systemd" / "monopath@.service"
INSTANCE = "3"


def _settings() -> dict[str, list[str]]:
    """What each setting is for one instance."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text("utf-8").replace("%i", INSTANCE).splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not installed")
    # It looks for the program, which is not installed here; a copy of one instance names another.
    text = UNIT.read_text("utf-8").replace("/opt/monopath/bin/monopath", "/bin/true")
    unit = tmp_path / UNIT.name.replace("@", f"@{INSTANCE}")
    unit.write_text(text)
    done = subprocess.run([verify, "verify", unit], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(text.replace("KillSignal", "KilSignal"))
    done = subprocess.run([verify, "verify", unit], capture_output=True, text=True, check=False, timeout=30)
    assert "'KilSignal'" in done.stderr


def test_an_instance_serves_its_gpu_at_its_port() -> None:
    settings = _settings()
    environment = dict(pair.split("=", 1) for line in settings["Environment"] for pair in shlex.split(line))
    assert environment["CUDA_VISIBLE_DEVICES"] == INSTANCE
    [start] = settings["ExecStart"]
    program, command, *arguments = shlex.split(start)
    assert (Path(program).name, command) == ("monopath", "serve")
    ours = {name: value for name, value in environment.items() if name.startswith("MONOPATH_")}
    values = parse_serve(arguments, ours)
    assert values["address"] == f"127.0.0.1:5007{INSTANCE}"
    assert values["cuda"] == "required"
    assert str(values["ready_file"]) in settings["ExecStartPost"][0]
    assert str(values["ready_file"].parent) == f"/run/{settings['RuntimeDirectory'][0]}"
    assert all(
        environment[name].startswith(f"/var/cache/{settings['CacheDirectory'][0]}/")
        for name in ("NUMBA_CACHE_DIR", "TRITON_CACHE_DIR")
    )
    assert int(settings["TimeoutStopSec"][0]) > stopping_seconds(values)


def test_an_instance_may_compile_and_reach_its_gpu() -> None:
    """Settings that would take that away: the last four put a list of devices in force, in which no GPU is."""
    forbidden = {"MemoryDenyWriteExecute", "PrivateDevices", "ProtectClock", "DeviceAllow", "DevicePolicy"}
    assert not forbidden & set(_settings())
    assert re.search(r"^KillSignal=SIGTERM$", UNIT.read_text("utf-8"), re.MULTILINE)
