"""READMEs are true: the example of each language runs as printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.snippets import SNIPPETS, Snippet, run_snippet
from tests.conformance.suite import Servers
from tests.conformance.toolchains import TOOLCHAINS, built

_NOT_BUILT = {toolchain.name for toolchain in TOOLCHAINS if not built(toolchain)}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
def test_the_example_of_a_readme_runs_as_printed(snippet: Snippet, servers: Servers, tmp_path: Path) -> None:
    if snippet.name in _NOT_BUILT:
        pytest.skip("not built; `make conformance` builds it")
    assert run_snippet(snippet, servers.plain, tmp_path) == ""


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("import sys; sys.exit('no server')", "no server"),
        ("print('1 tokens')", "Expected lines with"),
        ("import sys; print(sys.argv[1:], flush=True); raise ValueError('in the middle')", "in the middle"),
    ],
)
def test_an_example_that_does_not_run_is_told(program: str, text: str, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# An example\n\n```python\n{program}\n```\n")
    directory = tmp_path / "run"
    directory.mkdir()
    assert text in run_snippet(replace(SNIPPETS[0], readme=readme), "127.0.0.1:1", directory)
