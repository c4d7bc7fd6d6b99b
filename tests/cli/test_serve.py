"""`monopath serve`, in processes of its own."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from monopath import Client, StreamRefused
from monopath_server import __version__
from monopath_server.processors.presets import PRESETS
from tests.cli.conftest import Monopath
from tests.support.processes import SOURCE_PATHS, Finished, ServerProcess, run_monopath, serving

NO_CUDA = ("--cuda", "off")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_tells_its_address_twice_and_ends_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    ready_file = tmp_path / "ready.json"
    with serving("--address", "127.0.0.1:0", "--ready-file", ready_file, *NO_CUDA) as server:
        facts = json.loads(ready_file.read_text())
        assert facts == {"address": server.address, "pid": server.pid, "version": __version__}
        with Client(server.address) as client:
            assert client.capabilities(timeout_seconds=10).server_version == __version__
        server.send_signal(number)
        assert server.wait() == Finished(0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_options_can_come_from_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "preprocessor_config.json"
    config.write_text(
        json.dumps(
            {
                "patch_size": 28,
                "merge_kernel_size": 1,
                "in_patch_limit": 64,
                "patch_limit_on_one_side": 8,
                "image_mean": 0.5,
                "image_std": 0.25,
            }
        )
    )
    environment = {
        "MONOPATH_ADDRESS": f"unix:{tmp_path / 'socket'}",
        "MONOPATH_CUDA": "off",
        "MONOPATH_PRESET": f"mine={config}",
        "MONOPATH_CHUNK_BYTES": "64KiB",
        "MONOPATH_MAX_UNFINISHED_ITEMS": "3",
    }
    with serving(environment=environment) as server, Client(server.address) as client:
        assert server.address == environment["MONOPATH_ADDRESS"]
        found = client.capabilities(timeout_seconds=10)
        assert (found.limits.chunk_bytes, found.limits.max_unfinished_items) == (64 * 1024, 3)
        assert [preset.name for preset in found.presets] == sorted([*PRESETS, "mine"])
        [planned] = client.plan([(56, 28)], preset="mine").images
        assert planned.plan is not None
        assert planned.plan.token_count == 2


def test_a_second_server_at_the_same_port_fails_on_one_line(monopath: Monopath, server: ServerProcess) -> None:
    done = monopath("serve", "--address", server.address)
    assert done == Finished(1, "", f"Cannot listen at {server.address}: address already in use\n")


def test_a_second_server_at_the_same_socket_does_not_take_it_over(monopath: Monopath, tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    with serving("--address", address, *NO_CUDA) as first:
        assert monopath("serve", "--address", address) == Finished(
            1, "", f"Cannot listen at {address}: address already in use\n"
        )
        with Client(first.address) as client:
            assert client.capabilities(timeout_seconds=10).server_version == __version__


def test_a_socket_that_a_dead_server_left_behind_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with serving("--address", f"unix:{path}", *NO_CUDA) as server:
        assert server.stop().exit_code == 0


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("nonsense", "expected host:port or unix:/path"),
        ("127.0.0.1:http", "expected host:port or unix:/path"),
        (":50051", "expected host:port or unix:/path"),
        ("127.0.0.1:99999", "expected a port from 0 to 65535"),
        ("unix:", "expected unix:/path"),
    ],
)
def test_what_is_no_address_is_a_wrong_option(monopath: Monopath, address: str, cause: str) -> None:
    assert monopath("serve", "--address", address) == Finished(2, "", f"--address: {cause}, got '{address}'\n")


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("unix:/nowhere/socket", "there is no folder /nowhere"),
        ("unix:/etc/hostname", "there is a file of this name that is no socket"),
        ("no-such-host.invalid:1", "the host no-such-host.invalid is not known"),
    ],
)
def test_an_address_that_cannot_be_is_refused_with_the_cause(monopath: Monopath, address: str, cause: str) -> None:
    found = monopath("serve", "--address", address, "--insecure")
    assert found == Finished(1, "", f"Cannot listen at {address}: {cause}\n")


def test_wrong_preset_files_are_refused_with_every_wrong_key(monopath: Monopath, tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps({"media_proc_cfg": {"patch_size": 14, "merge_kernel_size": 2, "image_std": [1, 0, 1]}}))
    other.write_text("no JSON")
    missing = tmp_path / "missing.json"
    done = monopath("serve", "--preset", f"a={one}", "--preset", f"b={other}", "--preset", f"c={missing}")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"preset a ({one}):",
        "  media_proc_cfg.in_patch_limit: Expected a value, got none",
        "  media_proc_cfg.patch_limit_on_one_side: Expected a value, got none",
        "  media_proc_cfg.image_mean: Expected a value, got none",
        "  media_proc_cfg.image_std: Expected finite values greater than 0, got 0.0",
        f"preset b ({other}):",
        "  Expected a JSON object, got text that is not JSON",
        f"preset c: cannot read {missing}: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--preset", "kimi"], "--preset: expected NAME=FILE, got 'kimi'"),
        (["--max-image-bytes", "5xB"], "--max-image-bytes: expected a number of bytes such as 65536, 64KiB, 16MiB, "),
        (["--chunk-bytes", "2MiB"], "--chunk-bytes: expected 4096 to 1048576 bytes, got 2097152"),
        (["--workers", "0"], "--workers: expected 1 to 4096, got 0"),
        (["--grace", "-1"], "--grace: expected 0 to 1e+09 seconds, got -1"),
        (["--cuda", "perhaps"], "--cuda: expected one of auto, required, off, interpreter, got 'perhaps'"),
        (["--ready-file", "/nowhere/ready.json"], "--ready-file: there is no folder /nowhere"),
    ],
)
def test_wrong_options_end_with_exit_code_2(monopath: Monopath, arguments: list[str], complaint: str) -> None:
    done = monopath("serve", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr


def test_a_server_that_requires_a_gpu_does_not_start_without_one() -> None:
    done = run_monopath("serve", "--cuda", "required", environment={"CUDA_VISIBLE_DEVICES": ""})
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("This installation cannot serve: Expected a CUDA device, got none: ")
    assert len(done.stderr.splitlines()) == 1


def test_limits_reach_the_server(tmp_path: Path) -> None:
    with (
        serving("--address", f"unix:{tmp_path / 'socket'}", "--max-image-side", "100", *NO_CUDA) as server,
        Client(server.address) as client,
    ):
        [planned] = client.plan([(101, 1)], preset="kimi-k3").images
        assert planned.error is not None
        assert planned.error.reason == "IMAGE_TOO_LARGE"
        with pytest.raises(StreamRefused), client.deferred_cpu(preset="unknown", data_type="uint8"):
            pass


@pytest.mark.parametrize("missing", ["grpc_health", "numba", "PIL"])
def test_serve_says_what_to_install_where_only_the_client_is(tmp_path: Path, missing: str) -> None:
    done = run_monopath("serve", environment=_without(tmp_path, missing))
    assert done == Finished(
        2,
        "",
        f"`monopath serve` needs monopath[server] ({missing} is not installed): pip install 'monopath[server]'\n",
    )


def test_all_but_serving_works_where_only_the_client_is(
    server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    environment = _without(
        lacking, "grpc_health", "grpc_reflection", "grpc_status", "numba", "llvmlite", "PIL", "safetensors", "torch"
    )
    sent = run_monopath("preprocess", images[0], "--server", server.address, environment=environment)
    assert (sent.exit_code, sent.stderr) == (0, "")
    planned = run_monopath("plan", "28x28", "--server", server.address, environment=environment)
    assert (planned.exit_code, planned.stderr) == (0, "")
    for arguments in (
        ["preprocess", str(images[0])],
        ["preprocess", str(images[0]), "--server", server.address, "--path", "local"],
        ["preprocess", str(images[0]), "--server", server.address, "--out", "features.safetensors"],
        ["plan", str(images[0]), "--server", server.address],
    ):
        refused = run_monopath(*arguments, environment=environment)
        assert (refused.exit_code, refused.stdout) == (2, "")
        [line] = refused.stderr.splitlines()
        assert line.endswith("is not installed): pip install 'monopath[server]'")


def _without(folder: Path, *names: str) -> dict[str, str]:
    """Return an environment in which these packages cannot be imported."""
    for name in names:
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
    return {"PYTHONPATH": f"{folder}:{SOURCE_PATHS}"}
