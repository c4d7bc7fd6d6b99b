"""`monopath verify`: it finds nothing where all is right, and every wrong byte where something is wrong."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from monopath import Alpha, DataType, PreprocessingPath, ResampleKernel
from monopath.cli.verify_configs import CheckedConfig, with_small_limits
from monopath.cli.verify_images import evenly_spread, generated_subjects
from monopath.cli.verify_presets import alpha_of, checkpoint_of
from monopath.cli.verify_runs import Scope, Setting, crossed, planned_groups
from monopath_server.embedded import embedded_server
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.presets import PRESETS as SERVER_PRESETS
from monopath_server.processors.types import (
    Background,
    BackgroundPattern,
    FillStage,
    ImagePlan,
    OrientationPolicy,
)
from monopath_server.processors.types import (
    ResampleKernel as ServerResampleKernel,
)
from monopath_server.reference import RELEASED_PRESETS, reference_config
from monopath_server.serving.families.registry import processor_message
from monopath_server.settings import DeviceMode, Settings
from monopath_server.transforms.cpu import CpuTransform
from tests.cli.conftest import Monopath, json_lines
from tests.support.processes import ServerProcess

PILLOW_KERNELS = tuple(kernel for kernel in ResampleKernel if kernel is not ResampleKernel.ATEN_U8)
QUIET = Settings(cuda=DeviceMode.OFF)
FIELDS = [
    "path",
    "config",
    "config_sha256",
    "resample_kernel",
    "data_type",
    "image_count",
    "refused_count",
    "row_count",
    "size_bytes",
    "differing_bytes",
    "differences",
]


def test_every_setting_of_every_path_is_compared_and_nothing_differs(monopath: Monopath, server: ServerProcess) -> None:
    presets = ("--preset", "kimi-k2.5", "--preset", "kimi-k3")
    done = monopath("verify", "--limit", "6", *presets, "--server", server.address, "--json")
    lines = json_lines(done.stdout)
    assert (done.exit_code, done.stderr) == (0, "")
    assert all(list(line) == FIELDS for line in lines)
    assert {line["differing_bytes"] for line in lines} == {0}
    on_the_cpu = [line for line in lines if line["path"] == "DEFERRED_CPU"]
    settings = {(line["config"], line["resample_kernel"], line["data_type"]) for line in on_the_cpu}
    assert settings == {
        (config, kernel, data_type)
        for config in ("kimi-k2.5", "kimi-k2.5/small", "kimi-k3", "kimi-k3/small")
        for kernel in PILLOW_KERNELS
        for data_type in DataType
    }
    assert len(on_the_cpu) == len(settings)
    assert len({line["config_sha256"] for line in on_the_cpu}) == 4 * len(PILLOW_KERNELS)
    image_counts = Counter({line["config"]: 0 for line in on_the_cpu})
    for line in on_the_cpu:
        image_counts[line["config"]] += line["image_count"]
    assert all(6 * len(DataType) <= count <= 18 * len(DataType) for count in image_counts.values())
    assert {line["path"] for line in lines} == {"DEFERRED_CPU", "LOCAL"}
    for line in lines:
        element_bytes = {"uint8": 1, "float32": 4, "bfloat16": 2, "float16": 2}[line["data_type"]]
        assert line["size_bytes"] == line["row_count"] * 3 * 14 * 14 * element_bytes > 0


def test_the_table_fits_a_terminal_and_says_what_it_came_to(monopath: Monopath, server: ServerProcess) -> None:
    done = monopath("verify", "--limit", "3", "--preset", "kimi-k2.5", "--server", server.address)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.search(r"^deferred-cpu +kimi-k2.5/small +12.2 +\d+ +\d+ +[\d.]+ \w+ +0 *$", done.stdout, re.MULTILINE)
    assert re.match(r"3 images, \d+ comparisons of [\d.]+ MiB: 0 differing bytes \(\d+ s\)$", lines[-1])


def test_one_flipped_bit_is_found_and_its_place_is_named(
    monopath: Monopath, monkeypatch: pytest.MonkeyPatch, images: list[Path], tmp_path: Path
) -> None:
    row, channel, y, x, byte = 3, 1, 5, 9, 2
    offset_bytes = (((row * 3 + channel) * 14 + y) * 14 + x) * 4 + byte
    real = CpuTransform.rows_into

    def sabotaged(transform: CpuTransform, prepared: Any, plan: ImagePlan, out: NDArray[np.uint8]) -> None:
        real(transform, prepared, plan, out)
        if plan.original_size.height_px == 57:
            out[offset_bytes] ^= 0x40

    monkeypatch.setattr(CpuTransform, "rows_into", sabotaged)
    wrong = tmp_path / "wrong.png"
    Image.linear_gradient("L").resize((61, 57)).save(wrong)
    options = ("--preset", "kimi-k3", "--kernel", "pillow_12_2", "--dtype", "float32", "--path", "deferred-cpu")
    done = monopath("verify", images[0], wrong, *options, "--json")
    [line] = json_lines(done.stdout)
    assert done.exit_code == 1
    assert line["differing_bytes"] == 1
    [difference] = line["differences"]
    expected, found = difference.pop("expected"), difference.pop("found")
    assert int(expected, 16) ^ int(found, 16) == 0x40
    assert difference == {
        "image": str(wrong),
        "what": "bytes",
        "byte_count": 1,
        "offset_bytes": offset_bytes,
        "row": row,
        "channel": channel,
        "y": y,
        "x": x,
    }

    table = monopath("verify", images[0], wrong, *options)
    assert table.exit_code == 1
    assert (
        f"deferred-cpu, kimi-k3, pillow_12_2, float32: {wrong}: expected {expected}, got {found} at byte "
        f"{offset_bytes} (row 3, channel 1, y 5, x 9), the first of 1 that differ"
    ) in table.stdout


def test_a_wrong_token_count_is_found(monopath: Monopath, monkeypatch: pytest.MonkeyPatch, images: list[Path]) -> None:
    real = plan_image

    def sabotaged(*arguments: Any) -> ImagePlan:
        plan = real(*arguments)
        return replace(plan, token_count=plan.token_count + 1)

    monkeypatch.setattr("monopath_server.processors.kimi.config.plan_image", sabotaged)
    options = ("--preset", "kimi-k3", "--kernel", "pillow_13", "--dtype", "uint8", "--path", "deferred-cpu", "--json")
    done = monopath("verify", images[0], *options)
    [line] = json_lines(done.stdout)
    [difference] = line["differences"]
    assert done.exit_code == 1
    assert (difference["what"], difference["expected"], difference["found"]) == ("token_count", "4", "5")
    assert difference["offset_bytes"] is None


def test_a_preset_that_is_not_the_checkpoints_is_found(monopath: Monopath) -> None:
    with embedded_server(replace(QUIET, presets={"kimi-k3": PRESETS["kimi-k2.5"]})) as address:
        options = ("--preset", "kimi-k3", "--kernel", "pillow_13", "--dtype", "uint8", "--path", "deferred-cpu")
        done = monopath("verify", "--server", address, *options, "--limit", "40")
    assert done.exit_code == 1
    assert "kimi-k3, pillow_13, uint8: png-rgba-" in done.stdout


def test_a_preset_that_only_the_server_knows_is_compared_too(monopath: Monopath) -> None:
    own = replace(
        PRESETS["kimi-k3"],
        image_mean=(0.4, 0.45, 0.5),
        image_std=(0.2, 0.3, 0.4),
        transparent_background=Background(BackgroundPattern.CHESSBOARD, 5, False, 250, 90),
        transparent_fill_stage=FillStage.BEFORE_RESIZE,
        resample_kernel=ServerResampleKernel.PILLOW_11,
        orientation=OrientationPolicy.APPLY,
    )
    options = ("--kernel", "pillow_11", "--dtype", "bfloat16", "--path", "deferred-cpu")
    with embedded_server(replace(QUIET, presets={"own": own})) as address:
        done = monopath("verify", "--server", address, "--preset", "own", *options, "--limit", "20")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "0 differing bytes" in done.stdout


@pytest.mark.parametrize("orientation", ["keep", "apply"])
def test_a_checkpoint_file_and_an_orientation_can_be_given(
    monopath: Monopath, server: ServerProcess, tmp_path: Path, orientation: str
) -> None:
    config, image = tmp_path / "preprocessor_config.json", tmp_path / "turned.jpg"
    config.write_text(
        '{"media_proc_cfg": {"patch_size": 8, "merge_kernel_size": [2, 2], "in_patch_limit": 9, "image_std": 0.5, '
        '"patch_limit_on_one_side": 6, "image_mean": [0.1, 0.2, 0.3]}}'
    )
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.linear_gradient("L").resize((90, 40)).convert("RGB").save(image, exif=exif)
    done = monopath(
        "verify", image, "--config", config, "--orientation", orientation, "--server", server.address, "--json"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    lines = json_lines(done.stdout)
    assert len(lines) == 2 * len(PILLOW_KERNELS) * len(DataType)
    assert {line["config"] for line in lines} == {"preprocessor_config.json"}


def test_what_both_refuse_is_no_difference_and_what_one_refuses_is(
    monopath: Monopath, server: ServerProcess, images: list[Path], tmp_path: Path
) -> None:
    options = ("--preset", "kimi-k3", "--kernel", "pillow_13", "--dtype", "uint8", "--server", server.address)
    both = monopath("verify", *images, *options)
    assert both.exit_code == 0
    assert re.search(r"^deferred-cpu +kimi-k3 +13 +3 +\d+ +[\d.]+ \w+ +0 +1 *$", both.stdout, re.MULTILINE)
    assert re.search(r"^local +kimi-k3 +13 +3 +\d+ +[\d.]+ \w+ +0 +1 *$", both.stdout, re.MULTILINE)

    # Pillow reads it, and so does the reference; the server has no such format.
    portable = tmp_path / "image.ppm"
    Image.new("RGB", (20, 20)).save(portable)
    one = monopath("verify", images[0], portable, *options, "--path", "deferred-cpu")
    assert one.exit_code == 1
    assert f"{portable}: refused: expected 2352 bytes, got IMAGE_UNSUPPORTED" in one.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["missing.png", "absent.png"], 2, "Cannot read missing.png: no such file or directory\nCannot read absent"),
        (["--preset", "kimi-k9"], 2, "kimi-k9"),
        (["--path", "deferred-cuda"], 2, "--path: the server has no deferred-cuda: "),
        (["--interpreter"], 2, "Expected --server or --interpreter, got both"),
        (["--limit", "0"], 2, "--limit"),
    ],
)
def test_what_cannot_be_done_is_said(
    monopath: Monopath, server: ServerProcess, arguments: list[str], exit_code: int, words: str
) -> None:
    done = monopath("verify", *arguments, "--server", server.address)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert words in done.stderr


def test_a_server_that_is_not_there_is_said(monopath: Monopath, tmp_path: Path) -> None:
    done = monopath("verify", "--server", f"unix:{tmp_path / 'nobody'}", "--limit", "1")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "No monopath server answers at" in done.stderr


def test_the_interpreter_takes_the_cuda_path(monopath: Monopath) -> None:
    options = ("--limit", "2", "--preset", "kimi-k3", "--kernel", "pillow_13", "--dtype", "float16", "--json")
    done = monopath("verify", "--interpreter", "--path", "deferred-cuda", *options)
    lines = json_lines(done.stdout)
    assert done.exit_code == 0
    assert "slow" in done.stderr
    assert {(line["path"], line["differing_bytes"]) for line in lines} == {("DEFERRED_CUDA", 0)}
    assert sum(line["size_bytes"] for line in lines) > 0


def test_the_built_in_set_has_all_modes_and_over_400_images() -> None:
    subjects = generated_subjects()
    assert len({subject.name for subject in subjects}) == len(subjects) >= 400
    sizes_of_kinds = Counter(subject.kind for subject in subjects)
    assert min(sizes_of_kinds.values()) >= 13
    few = evenly_spread(subjects, 40)
    assert len({subject.index for subject in few}) == 40
    assert len({subject.kind for subject in few}) > 20


def _scope(*, is_interpreted: bool, names: tuple[str, ...] = ("kimi-k2.5", "kimi-k3")) -> Scope:
    configs = [
        each
        for name in names
        for checkpoint in [RELEASED_PRESETS[name]]
        for released in [CheckedConfig(name, {"preset": name}, checkpoint)]
        for each in (released, with_small_limits(released))
    ]
    return Scope(
        generated_subjects(),
        is_generated=True,
        paths=list(PreprocessingPath),
        configs=configs,
        kernels=list(ResampleKernel),
        data_types=list(DataType),
        is_interpreted=is_interpreted,
    )


def test_what_is_resized_is_resized_in_every_order_and_every_image_has_every_element_type() -> None:
    scope = _scope(is_interpreted=False)
    runs = [run for group in planned_groups(scope) for run in group.runs if run.path is PreprocessingPath.DEFERRED_CPU]
    assert {run.setting for run in runs} == set(scope.settings())
    times = Counter((run.setting.config.name, subject.name) for run in runs for subject in run.subjects)
    data_type_count, kernel_count = len(DataType), len(PILLOW_KERNELS)
    assert set(times) == {(config.name, subject.name) for config in scope.configs for subject in scope.subjects}
    assert set(times.values()) == {data_type_count, data_type_count * kernel_count}
    assert times["kimi-k3", "raw-rgb8-20x7200"] == data_type_count * kernel_count
    assert times["kimi-k3/small", "png-rgba-60x150"] == data_type_count * kernel_count
    assert times["kimi-k3", "png-rgba-60x150"] == data_type_count


def test_the_interpreter_takes_every_kind_under_every_order_and_type_of_both_configs_and_400_images() -> None:
    scope = _scope(is_interpreted=True)
    kinds = {subject.kind for subject in scope.subjects}
    runs = [run for group in planned_groups(scope) for run in group.runs if run.path is PreprocessingPath.DEFERRED_CUDA]
    thorough = {run.setting for run in runs if run.setting.config.is_small}
    assert thorough == {setting for setting in scope.settings() if setting.config.is_small}
    assert all({subject.kind for subject in run.subjects} == kinds for run in runs)
    released = {(run.setting.config.name, run.setting.data_type) for run in runs if not run.setting.config.is_small}
    assert released == {(name, data_type) for name in ("kimi-k2.5", "kimi-k3") for data_type in DataType}
    assert len({subject.index for run in runs for subject in run.subjects}) >= 400


@pytest.mark.parametrize("is_interpreted", [False, True])
def test_families_that_enlarge_take_every_kind_under_every_setting_and_other_ones_their_own_kernels(
    is_interpreted: bool,
) -> None:
    scope = _scope(is_interpreted=is_interpreted, names=("kimi-vl-a3b", "qwen3-vl", "glm5-next"))
    kinds = {subject.kind for subject in scope.subjects}
    kernels: dict[str, set[ResampleKernel]] = {}
    for run in (run for group in planned_groups(scope) for run in group.runs):
        config = run.setting.config
        kernels.setdefault(config.name, set()).add(run.setting.kernel)
        if config.resizes_most:
            assert {subject.kind for subject in run.subjects} == kinds
    assert kernels["qwen3-vl"] == kernels["glm5-next/small"] == set(ResampleKernel)
    assert kernels["kimi-vl-a3b/small"] == set(PILLOW_KERNELS)


def test_every_released_family_is_verified_by_default(monopath: Monopath, server: ServerProcess) -> None:
    options = ("--limit", "2", "--dtype", "bfloat16", "--path", "deferred-cpu", "--json")
    done = monopath("verify", *options, "--server", server.address)
    lines = json_lines(done.stdout)
    assert (done.exit_code, done.stderr) == (0, "")
    released = {line["config"] for line in lines if not line["config"].endswith("/small")}
    assert released == set(RELEASED_PRESETS) - {"qwen2.5-vl", "qwen3.5"}
    assert {line["differing_bytes"] for line in lines} == {0}


def test_presets_of_the_servers_own_are_read_for_the_reference() -> None:
    for name, config in SERVER_PRESETS.items():
        processor = processor_message(config)
        written = reference_config(checkpoint_of(processor), "PILLOW_13")
        assert written == reference_config(RELEASED_PRESETS[name], "PILLOW_13")
        assert alpha_of(processor) is Alpha.DROP


def test_sizes_come_again_shifted() -> None:
    subjects = [subject for subject in generated_subjects() if subject.kind == "raw-rgb8"][:4]
    config = CheckedConfig("any", {"preset": "any"}, {})
    settings = [Setting(config, kernel, data_type) for kernel in PILLOW_KERNELS for data_type in DataType]
    taken = {setting: subject for setting, [subject] in crossed(subjects, settings).items()}
    for data_type in DataType:
        assert len({taken[Setting(config, kernel, data_type)].name for kernel in PILLOW_KERNELS}) == 3
    assert set(taken.values()) == set(subjects)
