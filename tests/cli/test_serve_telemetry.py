"""The options of `monopath serve` for metrics, traces and logs: their effect, and what is refused."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from monopath import Client
from monopath.cli.telemetry_checks import check_telemetry
from monopath_server.telemetry.settings import TelemetrySettings
from tests.cli.conftest import Monopath, json_lines
from tests.support.processes import SOURCE_PATHS, Finished, run_monopath, serving

NO_CUDA = ("--cuda", "off")
ENDPOINT = "http://127.0.0.1:4317"


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def fetched(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("by_environment", [False, True])
def test_metrics_and_probes_are_served_and_the_log_is_json(
    images: list[Path], tmp_path: Path, by_environment: bool
) -> None:
    metrics = free_address()
    arguments = () if by_environment else ("--metrics-address", metrics, "--log-format", "json")
    environment = {"MONOPATH_METRICS_ADDRESS": metrics, "MONOPATH_LOG_FORMAT": "json"} if by_environment else {}
    options = ("--address", f"unix:{tmp_path / 's'}", "--log-level", "info", *NO_CUDA, *arguments)
    with serving(*options, environment=environment) as server:
        assert fetched(metrics, "/readyz") == "ready\n"
        with Client(server.address) as client, client.deferred_cpu(preset="kimi-k3", data_type="uint8") as stream:
            errors = {result.id: result.error is not None for result in stream.map(images)}
        assert errors == {1: False, 2: True, 3: False}
        assert '\nmonopath_items_total{outcome="COMPLETED",path="DEFERRED_CPU"} 2.0\n' in fetched(metrics, "/metrics")
        done = server.stop()
    assert (done.exit_code, done.stdout) == (0, "")
    entries = [entry for entry in json_lines(done.stderr) if entry["message"] in ("Item ended", "Stream ended")]
    assert [(entry["message"], entry.get("item_id"), entry["reason"]) for entry in entries] == [
        ("Item ended", 2, "IMAGE_DAMAGED"),
        ("Stream ended", None, "COMPLETED"),
    ]
    assert str(images[1]) not in done.stderr


def test_the_log_is_text_unless_asked_otherwise(tmp_path: Path) -> None:
    with serving("--address", f"unix:{tmp_path / 's'}", "--log-level", "info", *NO_CUDA) as server:
        with Client(server.address) as client, client.deferred_cpu(preset="kimi-k3", data_type="uint8"):
            pass
        lines = server.stop().stderr.splitlines()
    [ended] = [line for line in lines if "Stream ended" in line]
    assert " INFO monopath_server.telemetry.logs: Stream ended method=StreamDeferredCpu stream_id=1 peer=unix:" in ended
    with pytest.raises(json.JSONDecodeError):
        json.loads(ended)


def test_spans_are_asked_for_by_an_option_or_by_the_variables_of_opentelemetry() -> None:
    nothing = TelemetrySettings()
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4317"}
    assert check_telemetry(nothing, {}) == nothing
    assert check_telemetry(nothing, variables).otlp_endpoint == "http://all:4317"
    variables["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "https://traces:4317"
    assert check_telemetry(nothing, variables).otlp_endpoint == "https://traces:4317"
    assert check_telemetry(TelemetrySettings(otlp_endpoint=ENDPOINT), variables).otlp_endpoint == ENDPOINT


@pytest.mark.parametrize(
    ("option", "module", "extra"),
    [
        (("--otlp-endpoint", ENDPOINT), "opentelemetry", "telemetry"),
        (("--metrics-address", "127.0.0.1:0"), "prometheus_client", "server"),
    ],
)
def test_what_is_asked_for_and_not_installed_is_named_with_what_installs_it(
    option: tuple[str, str], module: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('No module named {module}', name='{module}')\n")
    environment = {"PYTHONPATH": f"{tmp_path}:{SOURCE_PATHS}"}
    done = run_monopath("serve", *NO_CUDA, *option, environment=environment)
    cause = f"{option[0]} needs monopath[{extra}] ({module} is not installed): pip install 'monopath[{extra}]'\n"
    assert done == Finished(2, "", cause)


def test_a_server_without_telemetry_imports_none_of_its_libraries() -> None:
    program = (
        "import sys; from monopath_server.app import Server; "
        "print([name for name in ('prometheus_client', 'opentelemetry') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": SOURCE_PATHS},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "complaint"),
    [
        (
            ("--metrics-address", "unix:/tmp/metrics"),
            2,
            "--metrics-address: expected host:port, got",
        ),
        (("--metrics-address", "9090"), 2, "--metrics-address: expected"),
        (("--metrics-address", "127.0.0.1:99999"), 2, "--metrics-address: expected a port from 0 to"),
        (("--otlp-endpoint", "localhost:4317"), 2, "--otlp-endpoint: expected http://host:port or https://host:port"),
        (("--otlp-endpoint", "ftp://localhost"), 2, "--otlp-endpoint: expected http://host:port or https://host:port"),
        (("--log-format", "xml"), 2, "--log-format: expected"),
    ],
)
def test_wrong_options_are_refused(
    monopath: Monopath, arguments: tuple[str, ...], exit_code: int, complaint: str
) -> None:
    done = monopath("serve", *arguments)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert complaint in done.stderr


def test_a_port_for_metrics_that_is_taken_fails_on_one_line(monopath: Monopath) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = monopath("serve", "--metrics-address", address)
    assert done == Finished(1, "", f"Cannot listen at {address}: address already in use\n")
