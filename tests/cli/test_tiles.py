"""Families whose rows of features are no patches of a grid, on the command line."""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors import safe_open

from tests.cli.conftest import Monopath, json_lines
from tests.support.processes import ServerProcess


def test_plans_of_tiles_and_of_fixed_sizes_have_fields_of_their_own(monopath: Monopath, server: ServerProcess) -> None:
    done = monopath("plan", "1920x1080", "5x5", "--preset", "internvl3-hf", "--server", server.address, "--json")
    fields = ("padding", "crop", "grid_thw", "tile_grid", "token_count")
    assert [[line[field] for field in fields] for line in json_lines(done.stdout)] == [
        [[0, 0], None, None, [4, 2, 1], 2304],
        [[0, 0], None, None, [1, 1, 0], 256],
    ]
    done = monopath("plan", "300x200", "--preset", "clip-vit-l-14", "--server", server.address, "--json")
    assert [[line[field] for field in fields] for line in json_lines(done.stdout)] == [
        [[0, 0], [56, 0, 224, 224], None, None, 257],
    ]


def test_a_table_shows_tiles_and_the_thumbnail(monopath: Monopath, server: ServerProcess) -> None:
    done = monopath("plan", "1920x1080", "5x5", "--preset", "internvl2.5", "--server", server.address)
    assert done.exit_code == 0
    assert " 4x2+1 " in done.stdout
    assert " 1x1 " in done.stdout


def test_a_file_of_features_has_grids_where_there_are_some(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "features.safetensors"
    options = ("--preset", "siglip-so400m-14-224", "--dtype", "uint8", "--out", out, "--json")
    done = monopath("preprocess", images[0], "--server", server.address, *options)
    [line] = json_lines(done.stdout)
    assert line["shape"] == [1, 3, 224, 224]
    assert line["grid_thw"] is None
    with safe_open(out, framework="numpy") as file:
        assert list(file.keys()) == ["1.pixel_values"]
        assert hashlib.sha256(file.get_tensor("1.pixel_values").tobytes()).hexdigest() == line["sha256"]


def test_features_are_finished_on_this_side_too(monopath: Monopath, server: ServerProcess, images: list[Path]) -> None:
    digests = set()
    for path in ("local", "deferred-cpu"):
        done = monopath(
            "preprocess", images[0], "--path", path, "--preset", "internvl2.5", "--server", server.address, "--json"
        )
        [line] = json_lines(done.stdout)
        assert line["error"] is None
        digests.add(line["sha256"])
    assert len(digests) == 1


def test_tiles_beside_images_of_one_size_are_drawn_and_not_compared(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "preview.png"
    options = ("--preset", "internvl2.5", "--preset", "clip-vit-l-14", "--out", out)
    done = monopath("preview", images[0], "--server", server.address, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    # A line for the picture, and none for a difference.
    assert [line.partition(" (")[0] for line in done.stdout.splitlines()] == [str(out)]
    assert out.exists()
