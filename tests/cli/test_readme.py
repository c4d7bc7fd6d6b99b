"""README.md is true: its example runs as printed, and its tables are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from monopath.cli.configuration.readme import with_table
from monopath.v1 import error_pb2, options_pb2
from monopath_server.reference import reference_features
from tests.cli.conftest import Monopath
from tests.cli.test_preprocess import FIELDS
from tests.demo.checkpoints import reference_config
from tests.support.processes import ServerProcess

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_example_runs_as_printed(server: ServerProcess, images: list[Path], tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    script = tmp_path / "stream.py"
    script.write_text(example)
    done = subprocess.run(
        [sys.executable, "-W", "error", script, server.address, *images],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    opened, first, second, third, batch = done.stdout.splitlines()
    expected = [reference_features(images[at].read_bytes(), reference_config("kimi-k3"), "BFLOAT16") for at in (0, 2)]
    row_count = sum(len(features.pixel_values) for features in expected)
    assert re.fullmatch(r"config [0-9a-f]{64}", opened)
    assert first.startswith("1 GridThw(t=1,")
    assert second.startswith("2 IMAGE_DAMAGED ")
    assert third.endswith(f" {expected[1].token_count} bfloat16")
    assert batch == f"for the encoder: ({row_count}, 3, 14, 14) {[list(features.grid_thw) for features in expected]}"


@pytest.mark.parametrize(
    ("heading", "reasons", "prefix"),
    [
        ("item", error_pb2.ItemErrorReason, "ITEM_ERROR_REASON_"),
        ("stream", error_pb2.StreamErrorReason, "STREAM_ERROR_REASON_"),
    ],
)
def test_the_reasons_are_those_of_the_contract(heading: str, reasons: object, prefix: str) -> None:
    printed = {}
    for cells in _table(f"| {heading} | code |"):
        for name, star in re.findall(r"`(\w+)`(\*?)", cells[0]):
            printed[name] = (cells[1].strip("`"), bool(star))
    descriptor = reasons.DESCRIPTOR  # type: ignore[attr-defined]  # an enum's wrapper
    expected = {}
    for value in descriptor.values:
        if value.number:
            traits = value.GetOptions().Extensions[options_pb2.traits]
            code = options_pb2.GrpcCode.Name(traits.code).removeprefix("GRPC_CODE_")
            expected[value.name.removeprefix(prefix)] = (code, traits.retryable)
    assert printed == expected


def test_the_json_fields_are_those_that_are_written() -> None:
    printed = [name for cells in _table("| field | value |") for name in re.findall(r"`(\w+)`", cells[0])]
    assert printed == FIELDS


def test_the_table_of_settings_is_the_one_that_is_made() -> None:
    assert with_table(README) == README


def test_every_command_and_make_target_exists(monopath: Monopath) -> None:
    for command in re.findall(r"`monopath ([a-z]+)", README):
        assert monopath(command, "--help").exit_code == 0
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    development = README.partition("## Development")[2]
    named = set(re.findall(r"\bmake ([a-z-]+)", README)) | set(re.findall(r"`([a-z]+)`", development))
    assert named - targets <= {"monopath"}


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def _table(heading: str) -> list[list[str]]:
    """Return the cells of the rows under the table's heading."""
    _, _, rest = README.partition(heading)
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    assert rows
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
