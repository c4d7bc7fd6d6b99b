"""How `monopath preprocess` shows what it does, and ends on Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import json_lines
from tests.support.processes import COMMAND, SOURCE_PATHS, Finished, ServerProcess, serving, starting


@pytest.mark.parametrize("own_server", [False, True])
def test_an_interrupt_ends_the_command_at_once_and_leaves_nothing(
    server: ServerProcess, images: list[Path], tmp_path: Path, own_server: bool
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    arguments = [] if own_server else ["--server", server.address]
    with starting("preprocess", images[0], pipe, *arguments, environment={"TMPDIR": str(folder)}) as process:
        with pipe.open("wb") as writing:
            # More than a pipe holds: the command is then in the middle of its stream, and reads its second image.
            writing.write(bytes(1 << 20))
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert list(folder.iterdir()) == []


def test_an_interrupt_tells_what_was_done_and_leaves_no_part_of_a_file(images: list[Path], tmp_path: Path) -> None:
    pipe, out = tmp_path / "pipe.png", tmp_path / "out" / "features.safetensors"
    out.parent.mkdir()
    os.mkfifo(pipe)
    socket = f"unix:{tmp_path / 'socket'}"
    with (
        # One is under way and one waits for it: the third is read when the first one's line is written.
        serving("--address", socket, "--cuda", "off", "--max-unfinished-items", "1") as server,
        starting("preprocess", images[0], images[2], pipe, "--json", "--out", out, "--server", socket) as process,
    ):
        with pipe.open("wb") as writing:
            # More than a pipe holds: the command is reading it.
            writing.write(bytes(1 << 20))
            process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
        assert server.stop() == Finished(0, "", "")
    [line] = json_lines(stdout)
    assert (line["id"], line["error"]) == (1, None)
    assert process.returncode == 130
    assert stderr.splitlines() == [f"Interrupted: {out} is not written", "2 of 3 images have no result"]
    assert list(out.parent.iterdir()) == []


def test_an_interrupt_while_the_server_does_not_answer_ends_the_command(images: list[Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    with (
        serving("--address", f"unix:{tmp_path / 'socket'}", "--cuda", "off") as server,
        starting("preprocess", pipe, "--server", server.address) as process,
    ):
        with pipe.open("wb") as writing:
            server.send_signal(signal.SIGSTOP)
            writing.write(images[0].read_bytes())
        _wait_until_closed(process.pid, pipe)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        server.send_signal(signal.SIGCONT)
    assert (process.returncode, stdout, stderr) == (130, "", "")


def _wait_until_closed(pid: int, file: Path) -> None:
    """Wait until a process has read a file: an interrupt within that may leave it unclosed, as Python does."""
    deadline_seconds = time.monotonic() + 30
    while time.monotonic() < deadline_seconds:
        opened = []
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                opened.append(descriptor.readlink())
        if file not in opened:
            return
    raise TimeoutError(f"Expected {file} to be read, got it open after 30 s")


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_terminal_sees_how_far_the_command_is_and_gets_its_cursor_back(
    server: ServerProcess, images: list[Path], tmp_path: Path, interrupted: bool
) -> None:
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    own_end, other_end = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "preprocess", images[0], pipe, images[2], "--json", "--server", server.address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=other_end,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE_PATHS, "COLUMNS": "80", "TERM": "xterm"},
    )
    try:
        os.close(other_end)
        with pipe.open("wb") as writing:
            writing.write(bytes(1 << 20) if interrupted else images[2].read_bytes())
            if interrupted:
                process.send_signal(signal.SIGINT)
        shown = _read_terminal(own_end)
        stdout, _ = process.communicate(timeout=30)
    finally:
        os.close(own_end)
        process.kill()
        process.wait()
    assert "Preprocessing" in shown
    assert "0/3" in shown
    assert "Traceback" not in shown
    hides, shows = (shown.rfind(f"\x1b[?25{letter}") for letter in "lh")
    assert 0 <= hides < shows
    assert process.returncode == (130 if interrupted else 0)
    if not interrupted:
        assert "3/3" in shown
        assert [line["error"] for line in json_lines(stdout)] == [None] * 3


def _read_terminal(own_end: int) -> str:
    """Read what is shown until nobody has the other end open any more."""
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(own_end, 1 << 16):
            shown += part
    return shown.decode()
