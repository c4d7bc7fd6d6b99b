"""What the type checker says of a worker that would mix paths in a batch."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRELUDE = """
from examples.encoder.lane import Lane
from examples.encoder.messages import FEATURES, IMAGES, Request
from examples.encoder.moonvit import MoonVit, encode_batch
from examples.encoder.rank import Rank
from examples.encoder.share import ShareEncoder
from examples.encoder.sources import EncodedImage, FinishedFeatures
from monopath import DeferredCpu, DeferredCuda, ImageInput, Local, LocalFeatures, Result

async def mix(
    encoder: MoonVit,
    cpu: list[Result[DeferredCpu]],
    cuda: list[Result[DeferredCuda]],
    local: list[Result[Local]],
    image: EncodedImage,
    features: FinishedFeatures,
    lane: Lane[DeferredCpu, ImageInput],
    share: ShareEncoder[DeferredCpu, ImageInput],
    local_share: ShareEncoder[Local, LocalFeatures],
    rank: Rank,
) -> None:
"""
ACCEPTED = {
    "a batch of one path": "encode_batch(encoder, cpu); encode_batch(encoder, local)",
    "a request of one kind": "await rank.encode(share, IMAGES, Request([image]))",
    "features by the local path": "await rank.encode(local_share, FEATURES, Request([features]))",
}
REFUSED = {
    "a batch of two paths": "encode_batch(encoder, cpu + local)",
    "a batch of two deferred paths": "encode_batch(encoder, [*cpu, *cuda])",
    "a batch of a path and what it lacks": "cpu.extend(local)",
    "features in a request for images": "await share.encode(Request([image, features]))",
    "features on a deferred lane": "await lane.results([features])",
    "images by the local path": "await rank.encode(local_share, IMAGES, Request([image]))",
    "a kind and another's source": "await rank.encode(share, FEATURES, Request([image]))",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what mypy says of each snippet; one run for all."""
    folder = tmp_path_factory.mktemp("snippets")
    files: dict[str, Path] = {}
    for index, (name, snippet) in enumerate([*ACCEPTED.items(), *REFUSED.items()]):
        files[name] = folder / f"snippet_{index}.py"
        files[name].write_text(PRELUDE + textwrap.indent(snippet, "    ") + "\n")
    # Our own settings, less torch: reading its types would take longer than everything else together.
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nexplicit_package_bases = true\ndisallow_subclassing_any = false\n"
        f"mypy_path = {ROOT / 'stubs' / 'python'}:{ROOT / 'server'}\n[mypy-torch.*]\nfollow_imports = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini"), "--no-error-summary"]
    command += ["--hide-error-context", "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [*command, *map(str, files.values())], capture_output=True, text=True, cwd=folder, timeout=110, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    return {name: "\n".join(line for line in errors if f"{file.name}:" in line) for name, file in files.items()}


@pytest.mark.parametrize("name", ACCEPTED)
def test_mypy_accepts(name: str, complaints: dict[str, str]) -> None:
    assert complaints[name] == ""


@pytest.mark.parametrize("name", REFUSED)
def test_mypy_refuses(name: str, complaints: dict[str, str]) -> None:
    assert f":{PRELUDE.count(chr(10)) + 1}: error:" in complaints[name]
