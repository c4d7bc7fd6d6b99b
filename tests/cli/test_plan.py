"""`monopath plan` and `monopath capabilities`."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from monopath_server.processors.presets import PRESETS
from tests.cli.conftest import Monopath, json_lines
from tests.support.processes import ServerProcess


def test_sizes_and_files_are_planned_in_the_order_of_the_arguments(
    monopath: Monopath, server: ServerProcess, images: list[Path]
) -> None:
    done = monopath("plan", "1920x1080", images[0], "8000x6000", "--server", server.address, "--json")
    lines = json_lines(done.stdout)
    assert (done.exit_code, done.stderr) == (0, "")
    assert lines[0] == {
        "id": 1,
        "label": "1920x1080",
        "original_size": [1920, 1080],
        "resized_size": [1920, 1080],
        "padding": [12, 12],
        "crop": None,
        "grid_thw": [1, 78, 138],
        "tile_grid": None,
        "token_count": 2691,
        "encoder_rank": None,
        "error": None,
    }
    assert [(line["label"], line["original_size"]) for line in lines[1:]] == [
        (str(images[0]), [40, 50]),
        ("8000x6000", [8000, 6000]),
    ]


def test_ranks_get_their_images_and_their_loads_add_up(monopath: Monopath, server: ServerProcess) -> None:
    sizes = ["280x280", "560x560", "28x28", "1400x1400"]
    done = monopath("plan", *sizes, "--ranks", "2", "--server", server.address, "--json")
    lines = json_lines(done.stdout)
    patch_counts = [line["grid_thw"][1] * line["grid_thw"][2] for line in lines[:4]]
    ranks = [line["encoder_rank"] for line in lines[:4]]
    assert ranks == [1, 1, 1, 0]
    assert lines[4:] == [
        {"encoder_rank": rank, "image_count": ranks.count(rank), "patch_count": load}
        for rank, load in enumerate((patch_counts[3], sum(patch_counts[:3])))
    ]


def test_the_tables_fit_into_80_columns(monopath: Monopath, server: ServerProcess, images: list[Path]) -> None:
    done = monopath("plan", "1920x1080", images[0], "--ranks", "3", "--server", server.address)
    assert done.exit_code == 0
    assert "1x78x138" in done.stdout
    assert "2695 tokens" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_size_that_cannot_be_planned_fails_alone(monopath: Monopath, server: ServerProcess) -> None:
    done = monopath("plan", "0x5", "28x28", "--server", server.address, "--json")
    bad, good = json_lines(done.stdout)
    assert done.exit_code == 1
    assert (bad["original_size"], bad["token_count"], bad["error"]["reason"]) == ([0, 5], None, "IMAGE_SIZE_INVALID")
    assert (good["token_count"], good["error"]) == (1, None)


def test_only_the_header_of_a_file_is_read(monopath: Monopath, server: ServerProcess, images: list[Path]) -> None:
    done = monopath("plan", images[1], "--server", server.address, "--json")
    assert [line["original_size"] for line in json_lines(done.stdout)] == [[70, 50]]


def test_an_orientation_that_is_applied_swaps_the_sides(
    monopath: Monopath, server: ServerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "sideways.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 30)).save(file, exif=exif)
    sizes = {}
    for policy in ("keep", "apply"):
        done = monopath("plan", file, "--orientation", policy, "--server", server.address, "--json")
        [sizes[policy]] = [line["original_size"] for line in json_lines(done.stdout)]
    assert sizes == {"keep": [60, 30], "apply": [30, 60]}


def test_what_is_neither_a_size_nor_an_image_is_named(monopath: Monopath, tmp_path: Path) -> None:
    text = tmp_path / "text.png"
    text.write_text("no image")
    missing = monopath("plan", "12by8")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr.startswith("Cannot read 12by8 (expected a size such as 1920x1080, or an image): ")
    unreadable = monopath("plan", text)
    assert (unreadable.exit_code, unreadable.stdout) == (2, "")
    assert unreadable.stderr.startswith(f"{text}: IMAGE_UNSUPPORTED: ")


def test_capabilities_say_what_is_missing_and_why(monopath: Monopath, server: ServerProcess) -> None:
    [found] = json_lines(monopath("capabilities", "--server", server.address, "--json").stdout)
    available = {path["name"]: path["available"] for path in found["paths"]}
    assert available == {"LOCAL": True, "DEFERRED_CUDA": False, "DEFERRED_CPU": True}
    assert [preset["name"] for preset in found["presets"]] == sorted(PRESETS)
    assert {preset["name"]: preset for preset in found["presets"]}["kimi-k2.5"]["processor"]["kimi"][
        "in_patch_limit"
    ] == 16384
    text = monopath("capabilities", "--server", server.address)
    assert text.exit_code == 0
    assert "DEFERRED_CUDA: no, CUDA is switched off" in text.stdout


def test_json_output_is_ascii_whatever_the_label(monopath: Monopath, server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "größe.png"
    Image.new("L", (28, 28)).save(file)
    done = monopath("plan", file, "--server", server.address, "--json")
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["label"] == str(file)
