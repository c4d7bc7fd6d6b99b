"""The first example of each README is a whole program. It is taken out as printed, built and run."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from monopath_server.reference import reference_features
from tests.conformance.clients import REPOSITORY
from tests.demo.checkpoints import reference_config

__all__ = ["SNIPPETS", "Snippet", "run_snippet"]

_STUBS = REPOSITORY / "stubs"
_RUN_SECONDS = 300
"""Some languages compile before they run."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """The example of one language. It gets an address and the names of image files, and prints each image's tokens."""

    name: str
    """The client's, in the table."""
    readme: Path
    fence: str
    """What stands behind the three backticks."""
    commands: Callable[[str, Path], Sequence[Sequence[str | Path]]]
    """Given the text and an empty folder: what builds the program, and last what runs it."""

    def text(self) -> str:
        """The example as printed."""
        found = re.search(rf"^```{self.fence}\n(.*?)^```$", self.readme.read_text(), re.DOTALL | re.MULTILINE)
        if found is None:
            raise ValueError(f"Expected an example in {self.fence} in {self.readme}, got none")
        return found[1]


def _python(text: str, directory: Path) -> Sequence[Sequence[str | Path]]:
    script = directory / "stream.py"
    script.write_text(text)
    return [(sys.executable, "-W", "error", script)]


def _javascript(text: str, directory: Path) -> Sequence[Sequence[str | Path]]:
    # As `npm install monopath` lays it.
    modules = directory / "node_modules"
    modules.mkdir()
    (modules / "monopath").symlink_to(_STUBS / "typescript")
    script = directory / "stream.mjs"
    script.write_text(text)
    return [("node", script)]


def _go(text: str, directory: Path) -> Sequence[Sequence[str | Path]]:
    script = directory / "stream.go"
    script.write_text(text)
    return [(_STUBS / "go" / "debian-go.sh", "run", script)]


def _rust(text: str, directory: Path) -> Sequence[Sequence[str | Path]]:
    # A crate of its own that depends on the client's, built beside it.
    crate = _STUBS / "rust"
    manifest = directory / "Cargo.toml"
    manifest.write_text(
        "[package]\nname = 'stream'\nversion = '0.1.0'\nedition = '2021'\n"
        f"[dependencies]\nmonopath = {{ path = '{crate}' }}\n"
        "tokio = { version = '1', features = ['macros'] }\n"
    )
    source = directory / "src" / "main.rs"
    source.parent.mkdir()
    source.write_text(text)
    return [(crate / "debian-cargo.sh", "run", "--quiet", "--release", "--manifest-path", manifest, "--")]


def _cpp(_text: str, _directory: Path) -> Sequence[Sequence[str | Path]]:
    # Its build takes the example out itself, and compiles it with every warning as an error.
    build = REPOSITORY / "build" / "cpp"
    return [("cmake", "--build", build, "--target", "readme_stream"), (build / "tests" / "readme_stream",)]


SNIPPETS = (
    Snippet("Python", REPOSITORY / "README.md", "python", _python),
    Snippet("TypeScript", _STUBS / "typescript" / "README.md", "js", _javascript),
    Snippet("C++", _STUBS / "cpp" / "README.md", "cpp", _cpp),
    Snippet("Go", _STUBS / "go" / "README.md", "go", _go),
    Snippet("Rust", _STUBS / "rust" / "README.md", "rust", _rust),
)


def run_snippet(snippet: Snippet, address: str, directory: Path) -> str:
    """Run an example with two good images and a damaged one between them. Returns what is wrong; "" where nothing is.

    `directory` is an empty folder.
    """
    images = _images(directory)
    work = directory / "work"
    work.mkdir()
    *builds, run = snippet.commands(snippet.text(), work)
    try:
        for build in builds:
            _run(build, work)
        printed = _run([*run, address, *images], work)
    except (OSError, subprocess.SubprocessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        return f"{error}: {said[-2000:]}".rstrip(": ")
    return _difference(printed, [images[0], images[2]])


def _run(command: Sequence[str | Path], directory: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=True,
    )
    return done.stdout


def _difference(printed: str, good_images: Sequence[Path]) -> str:
    """Each good image's token count stands in a line of its own, in their order."""
    config = reference_config("kimi-k3")
    counts = [reference_features(image.read_bytes(), config, "BFLOAT16").token_count for image in good_images]
    lines = iter(printed.splitlines())
    for count in counts:
        if not any(re.search(rf"(?<![\d.]){count}(?![\d.])", line) for line in lines):
            return f"Expected lines with {counts} tokens, got {printed!r}"
    return ""


def _images(directory: Path) -> list[Path]:
    """Three files; the second one is damaged. Their token counts are numbers that nothing else is likely to be."""
    images = []
    for index, name in enumerate(("first.png", "second.png", "third.png")):
        gradient = Image.linear_gradient("L").resize((1010 + 310 * index, 730))
        buffer = io.BytesIO()
        Image.merge("RGB", (gradient, gradient.rotate(180), gradient)).save(buffer, "PNG")
        content = buffer.getvalue()
        image = directory / name
        image.write_bytes(content[: len(content) // 2] if index == 1 else content)
        images.append(image)
    return images
