"""The programs of this folder against a real monopath server, held to what monopath's own command line says.

The server's program is $MONOPATH_BIN, or the one of the repository's .venv. Exit code 77: there is none.
"""

# Standard library only, and so unittest: whoever builds the C++ client need not have pytest.
# ruff: noqa: PT009, S311, S603, T201

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib
from pathlib import Path
from typing import Any, ClassVar

REPOSITORY = Path(__file__).resolve().parents[3]
MONOPATH = Path(os.environ.get("MONOPATH_BIN") or REPOSITORY / ".venv" / "bin" / "monopath")
SKIPPED = 77
RUN_SECONDS = 60.0
# The first start on a machine compiles the kernels.
SERVER_SECONDS = 240.0
STOP_SECONDS = 20.0


def png(width_px: int, height_px: int) -> bytes:
    """Return an RGB picture of noise under a gradient, so that no two of its patches are alike."""
    noise = random.Random(width_px)
    lines = b"".join(
        b"\0"
        + bytes(
            (x * 255 // width_px + y * part + noise.randrange(32)) % 256 for x in range(width_px) for part in (0, 1, 3)
        )
        for y in range(height_px)
    )

    def block(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", header) + block(b"IDAT", zlib.compress(lines)) + block(b"IEND", b"")


def unused_address() -> str:
    """Return an address at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


class EndToEnd(unittest.TestCase):
    """Two servers and one folder for all tests. The sidecar has a token, and no room to share a large picture."""

    programs: ClassVar[argparse.Namespace]
    address: ClassVar[str]
    sidecar: ClassVar[str]
    folder: ClassVar[Path]
    shared: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Write the pictures and start the servers; all are gone on every way out."""
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.shared = cls.folder / "shared"
        cls.shared.mkdir()
        (cls.folder / "token").touch(mode=0o600)
        (cls.folder / "token").write_text("a-token-of-the-tests\n")
        small, large = png(61, 43), png(1900, 1300)
        (cls.folder / "small.png").write_bytes(small)
        (cls.folder / "large.png").write_bytes(large)
        (cls.folder / "medium.png").write_bytes(png(700, 500))
        (cls.folder / "damaged.png").write_bytes(small[: len(small) // 2])
        cls.address = cls.serve("--address", "127.0.0.1:0")
        sidecar = {"token-file": cls.folder / "token", "shared-memory-dir": cls.shared}
        options = [text for name, value in sidecar.items() for text in (f"--{name}", str(value))]
        cls.sidecar = cls.serve(
            "--address", f"unix:{cls.folder}/server", "--max-shared-memory-bytes", "16MiB", *options
        )

    @classmethod
    def serve(cls, *options: str) -> str:
        """Start a server, and return where it is ready."""
        command = [str(MONOPATH), "serve", "--cuda", "off", *options]
        server = cls.enterClassContext(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        cls.addClassCleanup(cls.stop, server)
        limit = threading.Timer(SERVER_SECONDS, server.kill)
        limit.start()
        cls.addClassCleanup(limit.cancel)
        assert server.stdout is not None
        ready = re.search(r"ready at (\S+)", server.stdout.readline())
        assert ready, "Expected a server that says where it is ready, got none"
        return ready[1]

    @staticmethod
    def stop(server: subprocess.Popen[str]) -> None:
        """End the server, if need be by force."""
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()

    def preprocess(
        self, image: str, *, preset: str = "kimi-k3", address: str = ""
    ) -> tuple[subprocess.CompletedProcess[str], Path]:
        """Run the example on a picture, and return what came of it and where its features are."""
        out = self.folder / "features.bin"
        out.unlink(missing_ok=True)
        arguments = [address or self.address, preset, str(self.folder / image), str(out)]
        return self.run_program(self.programs.preprocess, *arguments), out

    def run_program(self, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)

    def expected(self, image: str, *options: str) -> dict[str, Any]:
        """Return what monopath's own command line says of a picture."""
        command = [str(MONOPATH), "preprocess", "--json", "--server", self.address, *options, str(self.folder / image)]
        found: dict[str, Any] = json.loads(self.run_program(*command).stdout)
        return found

    def test_the_written_bytes_are_those_of_the_python_client(self) -> None:
        for image in ("small.png", "large.png"):
            for preset in ("kimi-k2.5", "kimi-k3"):
                with self.subTest(image=image, preset=preset):
                    done, out = self.preprocess(image, preset=preset)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    expected = self.expected(image, "--preset", preset, "--dtype", "float32")
                    self.assertEqual(hashlib.sha256(out.read_bytes()).hexdigest(), expected["sha256"])
                    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
                    self.assertEqual([int(side) for side in said["grid_thw"].split()], expected["grid_thw"])
                    self.assertEqual(int(said["token_count"]), expected["token_count"])
                    self.assertEqual(int(said["size_bytes"]), out.stat().st_size)

    def test_images_of_tiles_and_of_one_size_have_the_bytes_of_the_python_client_and_no_grid(self) -> None:
        for preset in ("internvl2.5", "clip-vit-l-14"):
            with self.subTest(preset=preset):
                done, out = self.preprocess("large.png", preset=preset)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                expected = self.expected("large.png", "--preset", preset, "--dtype", "float32")
                self.assertEqual(hashlib.sha256(out.read_bytes()).hexdigest(), expected["sha256"])
                said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
                self.assertEqual((int(said["token_count"]), "grid_thw" in said), (expected["token_count"], False))

    def test_a_damaged_image_is_told_in_a_line_and_writes_nothing(self) -> None:
        done, out = self.preprocess("damaged.png")
        self.assertEqual((done.returncode, done.stdout, out.exists()), (1, "", False))
        self.assertRegex(done.stderr, r"\A\S+damaged\.png: IMAGE_DAMAGED: Expected [^\n]+\n\Z")

    def test_an_image_that_is_not_there_is_told(self) -> None:
        done, _ = self.preprocess("nowhere.png")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"nowhere\.png: No such file or directory\n\Z")

    def test_an_unknown_preset_names_its_field(self) -> None:
        done, _ = self.preprocess("small.png", preset="no-such-model")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\ACONFIG_INVALID: (.|\n)*processor\.preset\.name: ")

    def test_no_server_is_an_exit_code_of_its_own(self) -> None:
        done, _ = self.preprocess("small.png", address=unused_address())
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"\AUNAVAILABLE: ")

    def test_the_stream_of_the_readme_runs(self) -> None:
        pictures = [str(self.folder / name) for name in ("small.png", "damaged.png", "large.png")]
        done = self.run_program(self.programs.readme, self.address, *pictures)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        *results, last = done.stdout.splitlines()
        self.assertEqual((len(results), last), (3, "2 of 3 done"))
        expected = self.expected("large.png", "--dtype", "bfloat16")
        self.assertIn(f"large.png: {expected['token_count']} tokens, ", done.stdout)

    def round_trip(self, directory: str | Path, *images: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        """Have pictures made into features and those checked, and return what was said and where the features are."""
        out = Path(self.enterContext(tempfile.TemporaryDirectory()))
        pictures = [str(self.folder / image) for image in images]
        arguments = [self.sidecar, str(self.folder / "token"), str(directory), str(out), *pictures]
        return self.run_program(self.programs.round_trip, *arguments), out

    def owners(self) -> set[str]:
        """Return whose segments are in the sidecar's directory."""
        return {path.name for path in self.shared.iterdir() if path.name.count("-") == 1}

    def test_features_go_there_and_back_with_the_same_bytes_in_messages_and_in_shared_memory(self) -> None:
        images = ("small.png", "medium.png", "large.png")
        expected = {image: self.expected(image, "--dtype", "float32")["sha256"] for image in images}
        owners = self.owners()
        for directory, fallback_count in (("inline", 0), (self.shared, 2)):
            with self.subTest(directory=directory):
                done, out = self.round_trip(directory, *images)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                expected_lines = []
                for name in ("deferred", "local"):
                    for item_id, image in enumerate((image for image in images for _ in range(2)), start=1):
                        features = hashlib.sha256((out / f"{item_id}.{name}").read_bytes()).hexdigest()
                        self.assertEqual(features, expected[image])
                        content = hashlib.sha256((self.folder / image).read_bytes()).hexdigest()
                        expected_lines.append(f"{name} {item_id} {content}")
                    expected_lines.append(f"{name} fallback_count {fallback_count}")
                self.assertEqual(done.stdout.splitlines(), expected_lines, "in the order sent, though in groups")
        self.assertEqual(self.owners(), owners, "what the client had is gone")

    def test_shared_memory_in_another_directory_is_refused_with_its_reason(self) -> None:
        elsewhere = tempfile.mkdtemp(dir=self.folder)
        done, _ = self.round_trip(elsewhere, "small.png")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\ATRANSPORT_UNAVAILABLE: [^\n]+expected to see the client's segment[^\n]+\n\Z")
        self.assertEqual(list(Path(elsewhere).iterdir()), [])

    def test_the_conformance_program_answers_job_by_job_and_ends_with_its_input(self) -> None:
        known = {"name": "known", "method": "GetCapabilities", "requests": [{}], "half_close": True}
        unknown = {"name": "unknown", "method": "NoSuchMethod", "requests": [], "half_close": True}
        jobs = "".join(json.dumps({"address": self.address, "vector": vector}) + "\n" for vector in (known, unknown))
        done = self.run_program(self.programs.conformance, text=jobs)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answer, skip = (json.loads(line) for line in done.stdout.splitlines())
        self.assertEqual(
            (answer["name"], answer["status"]["code"], answer["status"]["violations"]), ("known", "OK", [])
        )
        (capabilities,) = answer["responses"]
        self.assertEqual(capabilities["paths"][0]["unavailableReason"], "", "written though it has its default value")
        kimi = next(preset for preset in capabilities["presets"] if preset["name"] == "kimi-k3")["processor"]["kimi"]
        self.assertNotIn("fixedOutputTokens", kimi, "absent, and so not written")
        self.assertEqual(skip, {"name": "unknown", "skipped": "Expected a method of the contract, got NoSuchMethod"})


def main() -> int:
    """Run the tests, unless there is no server to run them with."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("preprocess", "readme", "round-trip", "conformance"):
        parser.add_argument(f"--{name}", required=True, metavar="PROGRAM")
    EndToEnd.programs = parser.parse_args()
    if not MONOPATH.exists():
        print(f"Expected a monopath to start a server with, got none at {MONOPATH}", file=sys.stderr)
        return 1 if os.environ.get("MONOPATH_BIN") else SKIPPED
    return not unittest.main(argv=[sys.argv[0]], exit=False, verbosity=2).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
