"""Segments: who makes them takes them away, who reads them trusts nothing, and what the dead leave behind is swept."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monopath import shared_memory
from monopath.shared_memory import (
    HEADER_BYTES,
    SegmentError,
    SegmentOwner,
    SharedMemoryFull,
    check_segment,
    load_segment,
    read_segment,
    segment_header,
    sweep,
    write_generation,
)


def _names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def _name() -> str:
    return f"monopath-{secrets.token_hex(16)}-{secrets.token_hex(16)}"


def _read(directory: Path, name: str, offset_bytes: int, length_bytes: int) -> bytes:
    found = bytearray(length_bytes)
    read_segment(directory, name, offset_bytes, memoryview(found))
    return bytes(found)


def _check(directory: Path, name: str, offset_bytes: int, length_bytes: int) -> bytes:
    check_segment(directory, name, offset_bytes, length_bytes)
    return load_segment(directory, name, offset_bytes, length_bytes)


READERS = pytest.mark.parametrize("read", [_read, load_segment, _check])
Read = Callable[[Path, str, int, int], bytes]


@READERS
def test_what_one_writes_the_other_reads(read: Read, tmp_path: Path) -> None:
    with SegmentOwner(tmp_path) as owner:
        segment = owner.create(10_000)
        segment.memory[100:105] = b"bytes"
        segment.memory[9_999:] = b"z"
        assert read(tmp_path, segment.name, 100, 5) == b"bytes"
        assert read(tmp_path, segment.name, 9_999, 1) == b"z"
        assert len(read(tmp_path, segment.name, 0, 10_000)) == 10_000
        segment.memory[100:105] = b"other"
        assert read(tmp_path, segment.name, 100, 5) == b"other"


def test_segments_are_their_users_own_and_carry_their_owners_name(tmp_path: Path) -> None:
    with SegmentOwner(tmp_path) as owner:
        names = {owner.create(1).name for _ in range(3)}
        assert len(names) == 3
        (owners_file,) = set(_names(tmp_path)) - names
        assert all(name.startswith(f"{owners_file}-") for name in names)
        assert {entry.stat().st_mode & 0o777 for entry in tmp_path.iterdir()} == {0o600}
    assert _names(tmp_path) == []


@READERS
@pytest.mark.parametrize(
    ("offset_bytes", "length_bytes"), [(0, 101), (100, 1), (101, 1), (99, 2), (0, 0), (2**64 - 1, 1), (1, 2**64 - 1)]
)
def test_bytes_outside_of_a_segment_are_refused(
    read: Read, offset_bytes: int, length_bytes: int, tmp_path: Path
) -> None:
    if read is _read and length_bytes > 1000:
        length_bytes = 1000  # nobody has more memory to read into
    with SegmentOwner(tmp_path) as owner:
        segment = owner.create(100)
        with pytest.raises(SegmentError, match="Expected 1 byte or more within a segment of 100"):
            read(tmp_path, segment.name, offset_bytes, length_bytes)


@READERS
@pytest.mark.parametrize(
    "name", ["", ".", "..", "passwd", "/etc/passwd", "../{}", "{}/", "{}\n", "{}\0", "{}x", "monopath-{}", "owner"]
)
def test_names_that_are_no_segments_are_refused_unseen(read: Read, name: str, tmp_path: Path) -> None:
    with SegmentOwner(tmp_path) as owner:
        segment = owner.create(100)
        asked = owner._name if name == "owner" else name.format(segment.name)
        with pytest.raises(SegmentError, match="Expected a name of the form"):
            read(tmp_path, asked, 0, 1)


def _link(path: Path, target: Path) -> None:
    path.symlink_to(target)


@READERS
@pytest.mark.parametrize(
    "make",
    [
        lambda path, _target: os.mkfifo(path),
        _link,
        lambda path, _target: path.mkdir(),
        lambda _path, _target: None,
    ],
    ids=["a pipe", "a link", "a folder", "nothing"],
)
def test_what_is_no_file_is_neither_opened_for_long_nor_read(
    read: Read, make: Callable[[Path, Path], Any], tmp_path: Path
) -> None:
    with SegmentOwner(tmp_path) as owner:
        name = _name()
        make(tmp_path / name, tmp_path / owner.create(100).name)
        before = len(_names(Path("/proc/self/fd")))
        with pytest.raises(SegmentError, match="Expected a segment"):
            read(tmp_path, name, 0, 1)
        assert len(_names(Path("/proc/self/fd"))) == before


def test_a_segment_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv

    def shrinking(descriptor: int, buffers: Any, offset: int) -> int:
        os.truncate(tmp_path / segment.name, 50)
        return real(descriptor, buffers, offset)

    with SegmentOwner(tmp_path) as owner:
        segment = owner.create(100)
        monkeypatch.setattr(os, "preadv", shrinking)
        with pytest.raises(SegmentError, match="got one that shrank"):
            _read(tmp_path, segment.name, 0, 100)


@READERS
def test_large_segments_are_read_whole(read: Read, tmp_path: Path) -> None:
    data = np.random.default_rng(5).integers(0, 256, 5_000_000, np.uint8).tobytes()
    with SegmentOwner(tmp_path) as owner:
        segment = owner.create(len(data) + 7)
        segment.memory[7:] = data
        assert read(tmp_path, segment.name, 7, len(data)) == data


def test_the_header_is_the_contracts(tmp_path: Path) -> None:
    assert segment_header(258) == b"monopath\x02\x01\0\0\0\0\0\0"
    with SegmentOwner(tmp_path) as owner:
        segment = owner.create(HEADER_BYTES)
        write_generation(segment.memory, 258)
        assert load_segment(tmp_path, segment.name, 0, 16) == segment_header(258)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EFBIG])
def test_a_full_directory_is_noticed_before_a_byte_is_written(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(*_arguments: Any) -> None:
        raise OSError(code, os.strerror(code))

    with SegmentOwner(tmp_path) as owner:
        before = _names(tmp_path)
        monkeypatch.setattr(os, "posix_fallocate", allocate)
        with pytest.raises(SharedMemoryFull):
            owner.create(1 << 20)
        assert _names(tmp_path) == before
        monkeypatch.undo()
        owner.create(1 << 20)


def test_a_directory_that_cannot_be_used_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SegmentOwner(tmp_path / "nowhere")
    owner = SegmentOwner(tmp_path)
    owner.close()
    owner.close()
    with pytest.raises(ValueError, match="Expected an open owner"):
        owner.create(1)


def test_a_forked_child_takes_nothing_of_its_parents_away(tmp_path: Path) -> None:
    program = (
        "import os, sys, pathlib\n"
        "from monopath.shared_memory import SegmentOwner\n"
        "directory = pathlib.Path(sys.argv[1])\n"
        "owner = SegmentOwner(directory)\n"
        "owner.create(100)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    owner.close()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(len(list(directory.iterdir())))\n"
        "owner.close()\n"
        "print(len(list(directory.iterdir())))\n"
    )
    assert _run(program, tmp_path).stdout == "2\n0\n"


def _run(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


DYING = (
    "import os, sys, pathlib, signal\n"
    "from monopath.shared_memory import SegmentOwner\n"
    "owner = SegmentOwner(pathlib.Path(sys.argv[1]))\n"
    "owner.create(100), owner.create(100)\n"
    "os.kill(os.getpid(), signal.SIGKILL)\n"
)


def test_what_a_killed_process_left_is_swept_and_the_living_keep_theirs(tmp_path: Path) -> None:
    assert _run(DYING, tmp_path).returncode == -signal.SIGKILL
    left = _names(tmp_path)
    assert len(left) == 3
    with SegmentOwner(tmp_path) as owner:
        segment = owner.create(100)
        foreign = ["other", "monopath-", "monopath-xyz", f"{left[0]}x", f"monopath-{'A' * 32}"]
        for name in foreign:
            (tmp_path / name).write_bytes(b"")
        assert sweep(tmp_path) == 2
        assert set(_names(tmp_path)) == {*foreign, owner._name, segment.name}
        assert sweep(tmp_path) == 0


def test_a_sweep_that_was_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    """A segment whose owner's file is gone already belongs to nobody."""
    (tmp_path / _name()).write_bytes(b"x")
    assert sweep(tmp_path) == 1
    assert _names(tmp_path) == []


def test_a_sweep_of_what_is_not_there_or_not_ours_is_harmless(tmp_path: Path) -> None:
    assert sweep(tmp_path / "nowhere") == 0
    owner_name = f"monopath-{secrets.token_hex(16)}"
    (tmp_path / owner_name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / f"{owner_name}-{secrets.token_hex(16)}").write_bytes(b"x")
    os.mkfifo(tmp_path / f"monopath-{secrets.token_hex(16)}")
    sweep(tmp_path)
    assert owner_name in _names(tmp_path)


def test_an_owner_that_is_swept_before_it_has_its_lock_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    swept: list[bool] = []

    def late(descriptor: int, operation: int) -> None:
        if not swept:
            swept.append(True)
            monkeypatch.setattr(fcntl, "flock", real)
            sweep(tmp_path)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with SegmentOwner(tmp_path) as owner:
        assert swept
        assert _names(tmp_path) == [owner._name]
        assert sweep(tmp_path) == 0
        assert _names(tmp_path) == [owner._name]


def test_owners_and_sweeps_of_many_threads_do_not_hurt_each_other(tmp_path: Path) -> None:
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(30):
                with SegmentOwner(tmp_path) as owner:
                    segment = owner.create(100)
                    sweep(tmp_path)
                    assert load_segment(tmp_path, segment.name, 0, 1) == b"\0"
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert _names(tmp_path) == []


def test_the_directory_is_that_of_posix_shared_memory() -> None:
    assert str(shared_memory.DEFAULT_DIRECTORY) == "/dev/shm"
