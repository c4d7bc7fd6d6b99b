"""`monopath preprocess`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import threading
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open

from monopath import Client, Resume, _stream
from monopath.cli.options import DEFAULT_PRESET
from monopath_server.reference import reference_features
from tests.cli.conftest import Monopath, json_lines
from tests.demo.checkpoints import reference_config
from tests.support.processes import ServerProcess, run_monopath, serving

FIELDS = [
    "id",
    "label",
    "path",
    "original_size",
    "resized_size",
    "padding",
    "crop",
    "grid_thw",
    "tile_grid",
    "token_count",
    "shape",
    "data_type",
    "sha256",
    "content_sha256",
    "cache",
    "plan_ms",
    "total_ms",
    "error",
]


def test_json_lines_have_all_fields_in_the_order_of_the_arguments(
    monopath: Monopath, server: ServerProcess, images: list[Path]
) -> None:
    several = [images[0], images[2]] * 8
    done = monopath("preprocess", *several, "--json", "--server", server.address)
    lines = json_lines(done.stdout)
    assert (done.exit_code, done.stderr) == (0, "")
    assert [(line["id"], line["label"]) for line in lines] == [
        (number, str(file)) for number, file in enumerate(several, start=1)
    ]
    assert all(list(line) == FIELDS for line in lines)
    assert all(line["error"] is None for line in lines)
    assert all(0 < line["plan_ms"] <= line["total_ms"] for line in lines)


@pytest.mark.parametrize("path", ["deferred-cpu", "local"])
@pytest.mark.parametrize("data_type", ["float32", "bfloat16", "float16", "uint8"])
def test_what_is_reported_is_what_the_reference_computes(
    monopath: Monopath, server: ServerProcess, images: list[Path], path: str, data_type: str
) -> None:
    done = monopath("preprocess", images[0], "--json", "--server", server.address, "--path", path, "--dtype", data_type)
    [line] = json_lines(done.stdout)
    content = images[0].read_bytes()
    expected = reference_features(content, reference_config(DEFAULT_PRESET), data_type.upper())
    assert line == {
        "id": 1,
        "label": str(images[0]),
        "path": path.upper().replace("-", "_"),
        "original_size": list(expected.original_size),
        "resized_size": list(expected.resized_size),
        "padding": list(expected.padding),
        "grid_thw": list(expected.grid_thw),
        "crop": None,
        "tile_grid": None,
        "token_count": expected.token_count,
        "shape": list(expected.pixel_values.shape),
        "data_type": data_type,
        "sha256": hashlib.sha256(expected.pixel_values.tobytes()).hexdigest(),
        "content_sha256": hashlib.sha256(content).hexdigest(),
        "cache": line["cache"],
        "plan_ms": line["plan_ms"],
        "total_ms": line["total_ms"],
        "error": None,
    }


@pytest.mark.parametrize("path", ["deferred-cpu", "local"])
def test_shared_memory_gives_the_same_features(
    monopath: Monopath, server: ServerProcess, images: list[Path], path: str
) -> None:
    arguments: list[str | Path] = [*images, "--json", "--server", server.address, "--path", path]
    inline = json_lines(monopath("preprocess", *arguments).stdout)
    done = monopath("preprocess", *arguments, "--transport", "shared-memory")
    shared = json_lines(done.stdout)
    assert (done.exit_code, done.stderr) == (1, "")
    assert [line["sha256"] for line in shared] == [line["sha256"] for line in inline]
    assert {line["cache"] for line in shared} == ({"hit", None} if path == "deferred-cpu" else {None})


def test_the_last_line_tells_the_transport_and_the_cache(
    monopath: Monopath, images: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    done = monopath(
        "preprocess", *[images[0]] * 3, images[2], "--transport", "shared-memory", "--shared-memory-dir", folder
    )
    assert (done.exit_code, done.stderr) == (0, "")
    last_line = done.stdout.splitlines()[-1]
    assert last_line.startswith("over shared-memory, ")
    assert sum(map(int, re.findall(r"(\d+) (?:from the cache|made once for several)", last_line))) == 2
    assert list(folder.iterdir()) == []


def test_a_folder_that_the_server_does_not_share_is_refused(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    done = monopath(
        *("preprocess", images[0], "--server", server.address),
        *("--transport", "shared-memory", "--shared-memory-dir", tmp_path),
    )
    assert (done.exit_code, done.stdout) == (2, "")
    assert "TRANSPORT_UNAVAILABLE" in done.stderr


@pytest.mark.parametrize("path", ["deferred-cpu", "local"])
def test_a_damaged_file_in_the_middle_fails_alone(
    monopath: Monopath, server: ServerProcess, images: list[Path], path: str
) -> None:
    done = monopath("preprocess", *images, "--json", "--server", server.address, "--path", path)
    first, second, third = json_lines(done.stdout)
    assert (done.exit_code, done.stderr) == (1, "")
    assert first["error"] is None
    assert third["error"] is None
    assert second["id"] == 2
    assert list(second) == FIELDS
    assert set(second["error"]) == {"reason", "code", "message"}
    assert (second["error"]["reason"], second["error"]["code"]) == ("IMAGE_DAMAGED", "INVALID_ARGUMENT")
    assert second["sha256"] is None
    assert second["content_sha256"] == hashlib.sha256(images[1].read_bytes()).hexdigest()


def test_the_table_names_every_file_and_why_one_failed(
    monopath: Monopath, server: ServerProcess, images: list[Path]
) -> None:
    done = monopath("preprocess", *images, "--server", server.address)
    assert done.exit_code == 1
    assert "1x4x4" in done.stdout
    assert "2 done, 1 failed" in done.stdout
    assert done.stderr.startswith(f"{images[1]}: IMAGE_DAMAGED: ")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_without_a_server_the_command_runs_one_of_its_own_and_removes_it(tmp_path: Path, images: list[Path]) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    done = run_monopath("preprocess", *images, "--json", environment={"TMPDIR": str(folder)})
    assert [line["error"] is None for line in json_lines(done.stdout)] == [True, False, True]
    assert (done.exit_code, done.stderr) == (1, "")
    assert list(folder.iterdir()) == []


def test_files_that_cannot_be_read_are_all_named_before_anything_is_sent(
    monopath: Monopath, images: list[Path], tmp_path: Path
) -> None:
    missing = tmp_path / "missing.png"
    # Nothing listens there; that it is not even tried shows that nothing is sent.
    done = monopath("preprocess", images[0], missing, tmp_path, "--server", "127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"Cannot read {missing}: no such file or directory",
        f"Cannot read {tmp_path}: it is a folder",
    ]


def test_a_refused_config_names_every_missing_key(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    config = tmp_path / "preprocessor_config.json"
    config.write_text(
        json.dumps(
            {
                "media_proc_cfg": {
                    "merge_kernel_size": 2,
                    "in_patch_limit": 16384,
                    "patch_limit_on_one_side": 512,
                    "image_mean": [0.5, 0.5, 0.5],
                }
            }
        )
    )
    done = monopath("preprocess", images[0], "--config", config, "--server", server.address)
    first, *fields = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (2, "")
    assert first.startswith(f"Refused by {server.address}: CONFIG_INVALID: ")
    assert fields == [
        "  media_proc_cfg.patch_size: Expected a value, got none",
        "  media_proc_cfg.image_std: Expected a value, got none",
    ]


def test_an_unknown_key_of_a_config_is_a_warning(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    with Client(server.address) as client:
        kimi = client.plan([(1, 1)], preset="kimi-k3").processor.kimi
    config = tmp_path / "preprocessor_config.json"
    config.write_text(
        json.dumps(
            {
                "patch_size": kimi.patch_size,
                "merge_kernel_size": kimi.merge_kernel_size,
                "in_patch_limit": kimi.in_patch_limit,
                "patch_limit_on_one_side": kimi.patch_limit_on_one_side,
                "image_mean": 0.5,
                "image_std": 0.5,
                "colour_of_the_day": "mauve",
            }
        )
    )
    done = monopath("preprocess", images[0], "--config", config, "--server", server.address)
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: colour_of_the_day: ")


def test_a_path_that_the_server_lacks_is_refused_and_never_replaced(
    monopath: Monopath, server: ServerProcess, images: list[Path]
) -> None:
    done = monopath("preprocess", images[0], "--path", "deferred-cuda", "--server", server.address)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Refused by {server.address}: DEVICE_UNAVAILABLE: ")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "unix:/nowhere/socket"])
def test_a_server_that_does_not_answer_is_named_on_one_line(
    monopath: Monopath, images: list[Path], address: str
) -> None:
    done = monopath("preprocess", images[0], "--server", address)
    assert (done.exit_code, done.stdout) == (3, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"No monopath server answers at {address} (")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--preset", "kimi-k3", "--config", "file.json"], "Expected --preset or --config, got both"),
        (["--config", "missing.json"], "--config: cannot read missing.json: No such file or directory"),
        (["--path", "deferred-tpu"], "Invalid value for '--path'"),
        (["--dtype", "float64"], "Invalid value for '--dtype'"),
        (["--out", "/nowhere/features.safetensors"], "--out: cannot write /nowhere/features.safetensors"),
    ],
)
def test_wrong_options_are_refused_with_their_name(
    monopath: Monopath, images: list[Path], arguments: list[str], complaint: str
) -> None:
    done = monopath("preprocess", images[0], "--server", "127.0.0.1:1", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr


@pytest.mark.parametrize("data_type", ["float32", "bfloat16", "float16", "uint8"])
def test_features_are_written_to_a_file_bit_by_bit(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path, data_type: str
) -> None:
    out = tmp_path / "features.safetensors"
    done = monopath("preprocess", *images, "--server", server.address, "--dtype", data_type, "--out", out, "--json")
    lines = {line["id"]: line for line in json_lines(done.stdout)}
    # numpy knows bfloat16 by the name that ml_dtypes registers.
    assert ml_dtypes.bfloat16
    with safe_open(out, framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    assert sorted(tensors) == ["1.grid_thw", "1.pixel_values", "3.grid_thw", "3.pixel_values"]
    for number in (1, 3):
        rows = tensors[f"{number}.pixel_values"]
        assert rows.dtype.name == data_type
        assert list(rows.shape) == lines[number]["shape"]
        assert hashlib.sha256(rows.tobytes()).hexdigest() == lines[number]["sha256"]
        assert tensors[f"{number}.grid_thw"].dtype == np.int64
        assert tensors[f"{number}.grid_thw"].tolist() == lines[number]["grid_thw"]
    assert metadata["path"] == "DEFERRED_CPU"
    assert json.loads(metadata["labels"]) == {"1": str(images[0]), "3": str(images[2])}
    assert len(metadata["config_sha256"]) == 64
    assert [file.name for file in tmp_path.iterdir() if "safetensors" in file.name] == [out.name]


def test_names_that_are_no_text_reach_neither_the_server_nor_the_terminal(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    odd = tmp_path / "odd\x1b[31m\udcff.png"
    odd.write_bytes(images[0].read_bytes())
    table = monopath("preprocess", odd, "--server", server.address)
    assert table.exit_code == 0
    assert "\x1b" not in table.stdout
    [line] = json_lines(monopath("preprocess", odd, "--server", server.address, "--json").stdout)
    assert line["label"] == f"{tmp_path}/odd\x1b[31m?.png"


def test_a_server_that_dies_in_the_middle_is_named(
    monopath: Monopath, images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last of eight openings comes after ten seconds; what is said then is the same after one.
    monkeypatch.setattr(_stream, "Resume", partial(Resume, max_opening_count=3))
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)

    def kill_and_write() -> None:
        # Opening a pipe waits for its reader: the command's stream is then open.
        with pipe.open("wb") as writing:
            server.send_signal(signal.SIGKILL)
            server.wait()
            writing.write(images[2].read_bytes())

    with serving("--address", f"unix:{tmp_path / 'socket'}", "--cuda", "off") as server:
        killing = threading.Thread(target=kill_and_write, daemon=True)
        killing.start()
        done = monopath("preprocess", images[0], pipe, "--json", "--server", server.address)
        killing.join(30)
    assert done.exit_code == 3
    assert done.stderr.splitlines()[-1].startswith(f"Lost the server at {server.address} (")


def test_more_features_in_flight_than_the_server_takes_is_no_error(monopath: Monopath, tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    Image.linear_gradient("L").resize((280, 280)).save(large)
    with serving(
        "--address", f"unix:{tmp_path / 'socket'}", "--cuda", "off", "--max-unfinished-bytes", "1MiB"
    ) as server:
        done = monopath("preprocess", *([large] * 32), "--json", "--server", server.address)
    lines = json_lines(done.stdout)
    assert [line["error"] for line in lines] == [None] * 32
    assert len({line["sha256"] for line in lines}) == 1
    assert done.exit_code == 0
