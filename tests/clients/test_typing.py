"""What the type checker says of callers' code: results of two paths do not go together."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
from typing import assert_type
from pathlib import Path
import numpy as np
from monopath import *
from monopath import LocalFeatures, Local, DeferredCpu, DeferredCuda
from monopath.adapters.sglang import item_fields

def read_cpu(result: Result[DeferredCpu]) -> None: ...

def streams(
    cpu: Stream[DeferredCpu, ImageInput],
    cuda: Stream[DeferredCuda, ImageInput],
    local: Stream[Local, LocalFeatures],
    client: Client,
    a_cpu: Result[DeferredCpu],
    a_cuda: Result[DeferredCuda],
    features: LocalFeatures,
) -> None:
"""

ACCEPTED = {
    "results of one path": "results: list[Result[DeferredCpu]] = list(cpu.map([b'']))",
    "results know their path": "assert_type(next(cuda.map([Path('a')])), Result[DeferredCuda])",
    "methods know their path": "assert_type(client.local(preset='x', data_type='uint8'), Stream[Local, LocalFeatures])",
    "a batch of one path": "assert_type(concatenate(list(cpu.map([b'']))), FeatureBatch[DeferredCpu])",
    "images of every kind": "cpu.map([b'', Path('a'), Item(b''), RawImage(np.zeros((1, 1, 3), np.uint8), 'RGB8')])",
    "finished features on the local path": "local.map([features])",
    "a fleet of one path": "assert_type(Fleet([cpu, cpu]), Fleet[DeferredCpu, ImageInput])",
    "a fleet's results know their path": "assert_type(next(Fleet([cuda]).map([b''])), Result[DeferredCuda])",
    "an engine's items of one path": "item_fields(list(cpu.map([b''])), cpu.ready)",
    "events are closed": "for event in cpu.events(): assert_type(event, PlanEvent | Result[DeferredCpu])",
    "transports": "client.deferred_cuda(preset='x', data_type='uint8', transport='cuda_ipc', bypass_cache=True)",
    "a transport's word": "client.local(preset='x', data_type='uint8', transport=Transport.SHARED_MEMORY)",
    "a result in a with statement": "with a_cpu as held: assert_type(held, Result[DeferredCpu]); held.array.copy()",
    "what the cache did": "assert_type(a_cpu.cache, str | None)",
    "words": "client.deferred_cpu(preset='x', data_type=DataType.UINT8, order='as_sent', resample_kernel='pillow_13')",
}

REFUSED = {
    "a list of two paths": "results: list[Result[DeferredCpu]] = [a_cpu, a_cuda]",
    "a list of two paths, extended": "results = [a_cpu]; results.append(a_cuda)",
    "a batch of two lists of two paths": "concatenate(list(cpu.map([b''])) + list(cuda.map([b''])))",
    "two lists of two paths, joined": "results = list(cpu.map([b''])); results.extend(cuda.map([b'']))",
    "a batch of two paths": "concatenate([a_cpu, a_cuda])",
    "a fleet of two paths": "Fleet([cpu, cuda])",
    "an engine's items of two paths": "item_fields([a_cpu, a_cuda], cpu.ready)",
    "a function of another path": "read_cpu(a_cuda)",
    "a container of any path": "results: list[Result[AnyPath]] = [a_cpu]",
    "use of an inferred list of two paths": "for result in [a_cpu, a_cuda]: result.array",
    "images on the local path": "local.map([b''])",
    "finished features on a deferred path": "cpu.map([features])",
    "a file's name": "cpu.map(['name.png'])",
    "an unknown element type": "client.deferred_cpu(preset='x', data_type='float64')",
    "an unknown order": "client.deferred_cpu(preset='x', data_type='uint8', order='sorted')",
    "an unknown transport": "client.deferred_cpu(preset='x', data_type='uint8', transport='pigeon')",
    "a missing element type": "client.deferred_cpu(preset='x')",
    "an unknown argument": "client.deferred_cpu(preset='x', data_type='uint8', colour='red')",
    "an unknown pixel format": "RawImage(np.zeros((1, 1, 3), np.uint8), 'BGR8')",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what mypy says of each snippet; one run for all, since most of its time goes to numpy and grpc."""
    folder = tmp_path_factory.mktemp("snippets")
    files: dict[str, pathlib.Path] = {}
    for index, (name, snippet) in enumerate([*ACCEPTED.items(), *REFUSED.items()]):
        files[name] = folder / f"snippet_{index}.py"
        files[name].write_text(PRELUDE + textwrap.indent(snippet, "    ") + "\n")
    root = pathlib.Path(__file__).parents[2]
    # Our own settings, less torch: reading its types would take longer than everything else together.
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nexplicit_package_bases = true\n"
        f"mypy_path = {root / 'stubs' / 'python'}\n[mypy-torch.*]\nfollow_imports = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini")]
    command += ["--no-error-summary", "--hide-error-context", "--cache-dir", str(folder / "cache")]
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
    snippet_line = PRELUDE.count("\n") + 1
    assert f":{snippet_line}: error:" in complaints[name]
