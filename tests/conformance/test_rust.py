"""The Rust client against a real server: its stream gives the reference's bytes."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from monopath_server.reference import reference_features
from tests.conformance.clients import REPOSITORY
from tests.conformance.suite import Servers
from tests.demo.checkpoints import reference_config

_EXAMPLE = REPOSITORY / "build" / "rust" / "release" / "examples" / "preprocess"

pytestmark = pytest.mark.skipif(not _EXAMPLE.exists(), reason="not built; `make conformance` builds it")


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(part) for part in (_EXAMPLE, *arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


def test_the_example_writes_the_features_of_the_reference(servers: Servers, tmp_path: Path) -> None:
    image, out = tmp_path / "image.png", tmp_path / "features"
    gradient = Image.linear_gradient("L").resize((1500, 1100))
    buffer = io.BytesIO()
    Image.merge("RGB", (gradient, gradient.rotate(180), gradient)).save(buffer, "PNG")
    image.write_bytes(buffer.getvalue())
    done = _run(servers.plain, "kimi-k3", image, out)
    assert done.returncode == 0, done.stderr
    expected = reference_features(buffer.getvalue(), reference_config("kimi-k3"), "BFLOAT16")
    assert out.read_bytes() == expected.pixel_values.tobytes()
    assert f"{image}: {expected.token_count} tokens" in done.stdout


def test_the_example_says_why_an_image_has_no_features(servers: Servers, tmp_path: Path) -> None:
    image = tmp_path / "image.png"
    image.write_bytes(b"no image")
    done = _run(servers.plain, "kimi-k3", image, tmp_path / "features")
    assert done.returncode == 1
    assert "IMAGE_UNSUPPORTED" in done.stderr
    assert not (tmp_path / "features").exists()
