"""`monopath preview`: what is drawn is what the rows say, and the command ends as all commands do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from monopath import Client, DataType, GridThw, PreprocessingPath, Ready
from monopath.cli.options import ProcessorChoice
from monopath.cli.preview_parts import Part
from monopath.cli.preview_rows import Denormalizer, Pixels, unpatchify
from monopath.cli.preview_streams import ImageFiles, Seen, Unseen, sights
from monopath.cli.preview_views import View
from monopath_server.reference import RawImage, ReferenceConfig, reference_features
from monopath_server.reference.features import normalize_pixels
from monopath_server.reference.generated import generated_pixels
from monopath_server.transforms.tables import normalize_table
from tests.cli.conftest import Monopath
from tests.demo.checkpoints import reference_config
from tests.support.processes import SOURCE_PATHS, ServerProcess, starting

K2_5 = reference_config("kimi-k2.5")
FLOAT_TYPES = [np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)]
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SMALL = {
    "patch_size": 14,
    "merge_kernel_size": 2,
    "in_patch_limit": 6,
    "patch_limit_on_one_side": 8,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def reference_rows(pixels: Pixels, config: ReferenceConfig = K2_5, element_type: str = "UINT8") -> tuple[Any, GridThw]:
    """The reference's rows of RGB pixels, and their grid."""
    height_px, width_px = pixels.shape[:2]
    features = reference_features(RawImage(width_px, height_px, "RGB8", pixels.tobytes()), config, element_type)
    return features.pixel_values, GridThw(*features.grid_thw)


def reference_picture(content: bytes, config: ReferenceConfig) -> Pixels:
    """The padded picture that a model sees of a file, by the reference."""
    features = reference_features(content, config, "UINT8")
    _, grid_rows, grid_columns = features.grid_thw
    return unpatchify(features.pixel_values, grid_rows, grid_columns)


def view(name: str = "kimi-k2.5", path: PreprocessingPath = PreprocessingPath.DEFERRED_CPU) -> View:
    """A view of a preset."""
    return View(name, path, ProcessorChoice(name, None, None, None))


@settings(deadline=None)
@given(st.integers(1, 90), st.integers(1, 90))
def test_rows_become_the_padded_picture_and_the_picture_the_same_rows(width_px: int, height_px: int) -> None:
    pixels = generated_pixels(width_px, height_px, 3)
    rows, grid = reference_rows(pixels)
    picture = unpatchify(rows, grid.h, grid.w)
    assert picture.shape == (grid.h * 14, grid.w * 14, 3)
    np.testing.assert_array_equal(picture[:height_px, :width_px], pixels)
    assert not picture[height_px:].any()
    assert not picture[:, width_px:].any()
    again, same_grid = reference_rows(np.ascontiguousarray(picture))
    assert same_grid == grid
    np.testing.assert_array_equal(again, rows)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_rows_in_windows_are_put_where_their_numbers_say(down: int, across: int, window_size: int) -> None:
    grid_rows, grid_columns = down * window_size, across * window_size
    part = Part("", 0, grid_rows, grid_columns, window_size, (3, 2), None)
    rows = np.arange(part.row_count, dtype=np.uint8)[:, None, None, None].repeat(3, 1).repeat(2, 2).repeat(3, 3)
    picture = unpatchify(rows, grid_rows, grid_columns, window_size)
    numbers = [[part.row_at(row, column) for column in range(grid_columns)] for row in range(grid_rows)]
    np.testing.assert_array_equal(picture[::2, ::3, 1], numbers)
    # One window after the other, line by line, and so the patches within each.
    assert numbers[0][:window_size] == list(range(window_size))
    assert numbers[window_size - 1][window_size - 1] == window_size**2 - 1


@pytest.mark.parametrize(
    ("shape", "window_size", "complaint"),
    [
        ((4, 3, 14, 14), 1, r"Expected rows of shape \[8, channels, height, width\], got \[4, 3, 14, 14\]"),
        ((8, 3, 14), 1, r"Expected rows of shape \[8, channels, height, width\], got \[8, 3, 14\]"),
        ((8, 3, 14, 14), 3, "Expected whole windows of 3 patches, got 2 x 4"),
    ],
)
def test_rows_of_another_grid_are_no_picture(shape: tuple[int, ...], window_size: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        unpatchify(np.zeros(shape, np.uint8), 2, 4, window_size)


def test_the_frames_of_a_still_image_have_to_be_alike() -> None:
    rows = np.zeros((1, 3, 2, 4, 4), np.uint8)
    assert unpatchify(rows, 1, 1).shape == (4, 4, 3)
    rows[0, 2, 1, 3, 3] = 1
    with pytest.raises(ValueError, match="Expected the frames of a still image to be alike"):
        unpatchify(rows, 1, 1)


@pytest.mark.parametrize("data_type", FLOAT_TYPES, ids=str)
def test_elements_of_a_float_type_lead_back_to_every_pixel_value(data_type: np.dtype[Any]) -> None:
    levels = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(16, 16, 3)
    bits, grid = reference_rows(
        levels, element_type={"float32": "FLOAT32", "float16": "FLOAT16"}.get(data_type.name, "BFLOAT16")
    )
    table = normalize_pixels(np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1), (0.5,) * 3, (0.5,) * 3).T
    pixel_rows = Denormalizer(table, data_type).pixel_rows(bits.view(data_type))
    np.testing.assert_array_equal(unpatchify(pixel_rows, grid.h, grid.w)[:16, :16], levels)


@pytest.mark.parametrize("data_type", FLOAT_TYPES, ids=str)
@pytest.mark.parametrize("foreign", [0.123456, float("nan"), float("inf"), -7.0])
def test_an_element_that_no_pixel_value_has_is_found(data_type: np.dtype[Any], foreign: float) -> None:
    table = normalize_table((0.5,) * 3, (0.5,) * 3)
    rows = np.broadcast_to(table[:, :1, None], (5000, 3, 1, 1)).astype(data_type)
    rows[4999, 2] = foreign
    with pytest.raises(ValueError, match="Expected elements that a pixel value has, got 1 others in channel 2"):
        Denormalizer(table, data_type).pixel_rows(rows)


def test_rows_of_another_type_are_not_taken_for_elements() -> None:
    table = normalize_table((0.5,) * 3, (0.5,) * 3)
    with pytest.raises(ValueError, match=r"Expected rows of float32 \[patches, 3, height, width\], got float16"):
        Denormalizer(table, np.dtype(np.float32)).pixel_rows(np.zeros((1, 3, 1, 1), np.float16))


def test_pixel_values_that_share_an_element_cannot_be_told_apart() -> None:
    table = normalize_table(CLIP_MEAN, CLIP_STD)
    shared_count = sum(256 - len(np.unique(channel.astype(ml_dtypes.bfloat16).view(np.uint16))) for channel in table)
    assert shared_count > 0
    with pytest.raises(ValueError, match=f"got {shared_count} of 765 neighbours that share one in bfloat16"):
        Denormalizer(table, np.dtype(ml_dtypes.bfloat16))
    Denormalizer(table, np.dtype(np.float32))


@pytest.mark.parametrize("path", [PreprocessingPath.DEFERRED_CPU, PreprocessingPath.LOCAL])
@pytest.mark.parametrize("data_type", list(DataType))
def test_what_is_seen_over_a_stream_is_the_references_picture(
    server: ServerProcess, images: list[Path], path: PreprocessingPath, data_type: DataType
) -> None:
    files = ImageFiles(images, list(map(str, images)))
    told: list[Ready] = []
    with Client(server.address) as client:
        first, second, third = sights(client, view(path=path), data_type, files, told.append)
    assert [ready.path for ready in told] == [path]
    assert isinstance(second, Unseen)
    assert second.reason == "IMAGE_DAMAGED"
    for file, sight in ((images[0], first), (images[2], third)):
        assert isinstance(sight, Seen)
        [picture] = sight.pictures
        np.testing.assert_array_equal(picture.pixels, reference_picture(file.read_bytes(), K2_5))


@pytest.mark.parametrize(
    ("preset", "size"),
    [
        ("kimi-vl-a3b", (140, 84)),
        ("qwen2.5-vl", (140, 84)),
        ("qwen3-vl", (320, 256)),
        ("glm-4.1v", (140, 112)),
        ("glm5-next", (448, 224)),
        ("clip-vit-l-14", (224, 224)),
        ("siglip-so400m-14-384", (384, 384)),
        ("internvl2.5", (896, 448)),
        ("internvl3-hf", (448, 896)),
    ],
)
def test_every_familys_rows_are_put_together_to_the_image_that_they_were_made_of(
    server: ServerProcess, tmp_path: Path, preset: str, size: tuple[int, int]
) -> None:
    # Of a size that the family leaves as it is.
    pixels, file = generated_pixels(*size, 3), tmp_path / "image.png"
    Image.fromarray(pixels).save(file)
    with Client(server.address) as client:
        [sight] = sights(client, view(preset), DataType.UINT8, ImageFiles([file], [""]), lambda _: None)
    assert isinstance(sight, Seen)
    np.testing.assert_array_equal(sight.pictures[0].pixels, pixels)
    thumbnails = sight.pictures[1:]
    assert [(each.part.name, each.pixels.shape) for each in thumbnails] == (
        [("thumbnail", (448, 448, 3))] if preset.startswith("internvl") else []
    )
    for thumbnail in thumbnails:
        small = Image.fromarray(pixels).resize((448, 448), Image.Resampling.BICUBIC)
        distances = np.abs(thumbnail.pixels.astype(int) - np.asarray(small))
        # torchvision's arithmetic has fewer bits.
        assert distances.max() <= (0 if preset == "internvl2.5" else 2)


def test_the_command_draws_every_image_and_names_one_that_failed(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "seen.png"
    done = monopath("preview", *images, "--out", out, "--server", server.address)
    with Image.open(out) as picture:
        size = picture.size
    assert done.exit_code == 1
    assert done.stdout == f"{out} ({size[0]}x{size[1]} px)\n"
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{images[1]}: IMAGE_DAMAGED: ")


def test_two_presets_are_told_apart_by_the_references_own_difference(
    monopath: Monopath, server: ServerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "fading.png"
    fading = Image.fromarray(generated_pixels(60, 40, 3))
    fading.putalpha(Image.linear_gradient("L").resize(fading.size))
    fading.save(file)
    first, second = (
        reference_picture(file.read_bytes(), reference_config(name)).astype(int) for name in ("kimi-k2.5", "kimi-k3")
    )
    distances = np.abs(first - second)
    done = monopath(
        *("preview", file, "--out", tmp_path / "two.png", "--server", server.address),
        *("--preset", "kimi-k2.5", "--preset", "kimi-k3", "--dtype", "bfloat16"),
    )
    assert (done.exit_code, done.stderr) == (0, "")
    told = done.stdout.splitlines()[0]
    assert told.startswith(f"{file}: {np.count_nonzero(distances):,} of {distances.size:,} values differ (")
    assert told.endswith(f", in {np.count_nonzero(distances.any(axis=2)):,} pixels; by {distances.max()} at most")


def test_two_paths_do_not_differ(monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path) -> None:
    done = monopath(
        *("preview", images[0], images[2], "--out", tmp_path / "two.png", "--server", server.address),
        *("--path", "local", "--path", "deferred-cpu", "--preset", "kimi-k3", "--dtype", "float32"),
    )
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split(": none of ")[0] for line in done.stdout.splitlines()[:2]] == [str(images[0]), str(images[2])]


def test_nine_images_take_two_files(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "seen.png"
    done = monopath("preview", *[images[0]] * 9, "--out", out, "--server", server.address)
    written = [line.split(" (")[0] for line in done.stdout.splitlines()]
    assert (done.exit_code, written) == (0, [str(out), str(tmp_path / "seen-2.png")])
    for name in written:
        with Image.open(name) as picture:
            assert max(picture.size) < 4000
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--preset", "kimi-k9"], "Refused by "),
        (["--preset", "kimi-k2.5", "--preset", "kimi-k3", "--path", "local", "--path", "deferred-cpu"], "got 4: each"),
        (["--config", "missing.json"], "--config: cannot read missing.json: No such file or directory"),
        (["--path", "deferred-cuda"], "DEVICE_UNAVAILABLE"),
        (["--path", "deferred-tpu"], "Invalid value for '--path'"),
        (["--out", "/nowhere/seen.png"], "--out: cannot write /nowhere/seen.png"),
        (["--out", "seen.jpg"], "--out: expected a name that ends in .png, got seen.jpg"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(
    monopath: Monopath,
    server: ServerProcess,
    images: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    done = monopath("preview", images[0], "--server", server.address, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert list(folder.iterdir()) == []


def test_missing_files_and_servers_have_the_exit_codes_of_all_commands(
    monopath: Monopath, images: list[Path], tmp_path: Path
) -> None:
    missing = monopath("preview", tmp_path / "missing.png", tmp_path, "--server", "127.0.0.1:1")
    assert missing.exit_code == 2
    assert len(missing.stderr.splitlines()) == 2
    unreachable = monopath("preview", images[0], "--out", tmp_path / "seen.png", "--server", "127.0.0.1:1")
    assert unreachable.exit_code == 3
    assert unreachable.stderr.startswith("No monopath server answers at 127.0.0.1:1 (")


def test_a_float_type_whose_rows_do_not_tell_the_pixels_is_refused(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    config = tmp_path / "preprocessor_config.json"
    config.write_text(json.dumps({**SMALL, "image_mean": CLIP_MEAN, "image_std": CLIP_STD}))
    arguments: list[str | Path] = [
        "preview",
        images[0],
        "--out",
        tmp_path / "seen.png",
        "--config",
        config,
        "--server",
        server.address,
    ]
    done = monopath(*arguments, "--dtype", "bfloat16")
    assert done.exit_code == 2
    assert done.stderr.startswith("--dtype: Expected an element of its own for each pixel value, got ")
    assert monopath(*arguments, "--dtype", "float32").exit_code == 0


def test_without_pillow_the_command_says_what_to_install(images: list[Path]) -> None:
    program = "import sys; sys.modules['PIL'] = None; from monopath.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, "preview", str(images[0])],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": SOURCE_PATHS},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "`monopath preview` needs monopath[server] (PIL is not installed): pip install 'monopath[server]'\n"
    )


def test_an_interrupt_leaves_full_pictures_and_no_traceback(
    server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    pipe, out = tmp_path / "pipe.png", tmp_path / "out" / "seen.png"
    out.parent.mkdir()
    os.mkfifo(pipe)
    with starting("preview", images[0], pipe, "--out", out, "--server", server.address) as process:
        with pipe.open("wb") as writing:
            # More than a pipe holds: the command is then in the middle of its stream, and reads its second image.
            writing.write(bytes(1 << 20))
            process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout, stderr) == (130, "", "")
    assert list(out.parent.iterdir()) == []
