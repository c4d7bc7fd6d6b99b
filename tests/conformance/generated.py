"""Whether the generated code of other languages, which is committed, is what the contract gives today."""

from __future__ import annotations

import filecmp
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.clients import REPOSITORY

__all__ = ["GENERATED", "Generated", "stale"]

_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Generated:
    """The generated code of one language."""

    name: str
    """The client's, in the table."""
    command: Callable[[Path], Sequence[str]]
    """Writes it anew, given a folder."""
    fresh: str
    """Where it is then, in the folder."""
    committed: Path
    directory: Path = REPOSITORY


_TYPESCRIPT = REPOSITORY / "stubs" / "typescript"

GENERATED = (
    Generated(
        name="TypeScript",
        command=lambda out: ("npm", "run", "--silent", "generate", "--", "--output", str(out)),
        fresh="src/gen",
        committed=_TYPESCRIPT / "src" / "gen",
        directory=_TYPESCRIPT,
    ),
    Generated(
        name="Go",
        command=lambda out: ("stubs/go/generate.sh", str(out)),
        fresh="monopath/v1",
        committed=REPOSITORY / "stubs" / "go" / "monopath" / "v1",
    ),
    Generated(
        name="Rust",
        command=lambda out: ("stubs/rust/generate.sh", str(out)),
        fresh="src/v1",
        committed=REPOSITORY / "stubs" / "rust" / "src" / "v1",
    ),
)


def stale(generated: Generated) -> str:
    """Make the code anew and compare. Returns what is wrong, in words; empty where nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        done = subprocess.run(
            generated.command(out),
            cwd=generated.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            return f"the generator ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"
        differing = sorted(_differing(filecmp.dircmp(out / generated.fresh, generated.committed, ignore=[])))
    return f"not what protos/ gives, generate again: {', '.join(differing)}" if differing else ""


def _differing(compared: filecmp.dircmp[str]) -> list[str]:
    # Contents, not what the file system says of them.
    _, changed, broken = filecmp.cmpfiles(compared.left, compared.right, compared.common_files, shallow=False)
    names = [*compared.left_only, *compared.right_only, *changed, *broken]
    return names + [name for part in compared.subdirs.values() for name in _differing(part)]
