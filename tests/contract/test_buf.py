"""What `buf` holds of the contract: style, comments, format, and that nothing breaks against the last release."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.contract.buf import PROTOS, run_buf
from tests.support.options import BASELINE


def _copy_with(tmp_path: Path, file_name: str, old: str, new: str) -> Path:
    """A copy of protos/ in which one text of one file is replaced."""
    copy = tmp_path / "protos"
    shutil.copytree(PROTOS, copy)
    file = copy / "monopath" / "v1" / file_name
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return copy


def test_the_contract_passes_lint_with_a_comment_on_every_element() -> None:
    result = run_buf("lint")
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_lint_finds_a_missing_comment(tmp_path: Path) -> None:
    copy = _copy_with(tmp_path, "location.proto", "  // Where in the segment the bytes begin.\n", "")
    result = run_buf("lint", directory=copy)
    assert result.returncode != 0
    assert 'Field "offset_bytes" should have a non-empty comment' in result.stdout


def test_the_contract_is_formatted() -> None:
    result = run_buf("format", "--diff", "--exit-code")
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_the_baseline_is_an_image_that_buf_can_build(tmp_path: Path) -> None:
    rebuilt = tmp_path / "rebuilt.binpb"
    result = run_buf("build", str(BASELINE), "--output", str(rebuilt))
    assert (result.returncode, result.stderr) == (0, "")
    assert rebuilt.stat().st_size > 0


def test_nothing_breaks_against_the_last_release() -> None:
    result = run_buf("breaking", "--against", str(BASELINE))
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("file_name", "old", "new", "finding"),
    [
        ("geometry.proto", "  uint32 bottom_px = 2;\n", "", 'field "2" with name "bottom_px"'),
        ("geometry.proto", "uint32 bottom_px = 2;", "uint32 bottom_px = 3;", 'field "2" with name "bottom_px"'),
        ("geometry.proto", "uint32 bottom_px = 2;", "uint64 bottom_px = 2;", "changed type"),
        ("geometry.proto", "uint32 bottom_px = 2;", "uint32 below_px = 2;", "changed name"),
        ("config.proto", "  RESULT_ORDER_AS_SENT = 2;\n", "", 'enum value "2"'),
        ("service.proto", "  rpc Plan(PlanRequest) returns (PlanResponse);\n", "", 'RPC "Plan"'),
    ],
    ids=["deleted field", "renumbered field", "retyped field", "renamed field", "deleted value", "deleted method"],
)
def test_a_break_against_the_last_release_is_found(
    tmp_path: Path, file_name: str, old: str, new: str, finding: str
) -> None:
    result = run_buf("breaking", "--against", str(BASELINE), directory=_copy_with(tmp_path, file_name, old, new))
    assert result.returncode != 0
    assert finding in result.stdout
