"""The README's examples of fleets and engines run as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from monopath import Client
from tests.adapters.conftest import IMAGES
from tests.support.processes import ServerProcess

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def _examples(heading: str) -> list[str]:
    """The blocks of Python under a heading."""
    section = re.split(r"\n##+ ", README.partition(f"# {heading}\n")[2])[0]
    found: list[str] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return found


def _run(program: str, folder: Path, *arguments: str | Path) -> list[str]:
    script = folder / "example.py"
    script.write_text(program)
    command = [sys.executable, "-W", "error", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("engine", ["sglang", "vllm", "smg"])
def test_an_engines_example_runs_as_printed(engine: str, client: Client, server: ServerProcess, tmp_path: Path) -> None:
    first, *others = _examples("Into an engine")
    [example] = [one for one in others if f"import {engine}\n" in one]
    files = [tmp_path / f"{place}.png" for place in range(len(IMAGES))]
    for file, image in zip(files, IMAGES, strict=True):
        Image.fromarray(image.pixels).save(file)
    lines = _run(first + example, tmp_path, server.address, *files)

    sizes = [(image.pixels.shape[1], image.pixels.shape[0]) for image in IMAGES]
    plans = [image.plan for image in client.plan(sizes, preset="qwen2.5-vl", data_type="bfloat16").images]
    rows = [plan.shape[0] for plan in plans if plan is not None]
    lengths = [count // 4 for count in rows]
    offsets = [sum(lengths[:place]) for place in range(len(lengths))]
    if engine == "sglang":
        for line, count, offset, length in zip(lines, rows, offsets, lengths, strict=True):
            assert line.startswith(f"torch.Size([{count}, 1176]) {{'image_grid_thw': tensor(")
            assert f" [({offset}, {offset + length - 1})] " in line
    elif engine == "vllm":
        assert lines[0].startswith(f"{{'pixel_values': (torch.Size([{sum(rows)}, 1176]), Field(modality='image', ")
    else:
        assert lines == [f"[{sum(rows)}, 1176] {list(zip(offsets, lengths, strict=True))}"]


def test_the_fleets_example_runs_as_printed(client: Client, server: ServerProcess, tmp_path: Path) -> None:
    [example] = [one for one in _examples("When a server goes away") if "Fleet" in one]
    for address in ("unix:/run/monopath/0", "10.0.0.2:50051"):
        assert example.count(address) == 1
        example = example.replace(address, server.address)
    files = [tmp_path / f"{place}.png" for place in range(len(IMAGES))]
    for file, image in zip(files, IMAGES, strict=True):
        Image.fromarray(image.pixels).save(file)
    names = ", ".join(f"Path({str(file)!r})" for file in files)
    lines = _run(f"from pathlib import Path\nimages = [{names}]\n{example}", tmp_path)
    with client.deferred_cpu(preset="kimi-k3", data_type="bfloat16", order="as_sent") as stream:
        expected = [f"{result.id} {result.plan.token_count}" for result in stream.map(files)]
    assert sorted(lines) == expected
