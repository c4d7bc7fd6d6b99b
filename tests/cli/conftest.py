"""A server for all tests of the command line, the command line itself, and small images."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from PIL import Image

from monopath.cli.main import main
from tests.support.processes import Finished, ServerProcess, serving


class Monopath(Protocol):
    """Runs `monopath` in this process."""

    def __call__(self, *arguments: str | Path) -> Finished: ...


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """A server without CUDA on a free port."""
    with serving("--address", "127.0.0.1:0", "--cuda", "off") as running:
        yield running
        assert running.stop() == Finished(0, "", "")


@pytest.fixture
def monopath(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Monopath:
    """The command line, in this process: quicker, and what it imports stays imported."""
    for name in [name for name in os.environ if name.startswith("MONOPATH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str | Path) -> Finished:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = ended.value.code
        return Finished(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """Three files; the second one is damaged."""
    files = [tmp_path / name for name in ("first.png", "second.jpg", "third.webp")]
    for index, file in enumerate(files):
        gradient = Image.linear_gradient("L").resize((40 + 30 * index, 50))
        Image.merge("RGB", (gradient, gradient.rotate(180), gradient)).save(file)
    content = files[1].read_bytes()
    files[1].write_bytes(content[: len(content) * 4 // 5])
    return files


def json_lines(text: str) -> list[dict[str, Any]]:
    """Parse one JSON object a line."""
    return [json.loads(line) for line in text.splitlines()]
