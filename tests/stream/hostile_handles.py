"""Handles that are wrong, one in each way that is thought of. `FILE` is what a good one leads to."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from monopath.v1 import location_pb2
from tests.stream.shared_rig import SharedRig
from tests.support.stream import photo, png

__all__ = ["FILE", "HANDLES", "WITH_OTHER_LENGTHS", "MakeHandle"]

FILE = png(photo(50, 40))

Handle = location_pb2.SharedMemoryHandle
MakeHandle = Callable[[SharedRig], Handle]


# ---- names


def a_name_with_a_slash(rig: SharedRig) -> Handle:
    return rig.memory.handle(f"{rig.directory.name}/{secret_file(rig).name}", 0, len(FILE))


def a_name_above_the_directory(rig: SharedRig) -> Handle:
    return rig.memory.handle(f"../{rig.directory.name}/{secret_file(rig).name}", 0, len(FILE))


def an_absolute_name(rig: SharedRig) -> Handle:
    return rig.memory.handle(str(secret_file(rig)), 0, len(FILE))


def a_name_with_a_nul(rig: SharedRig) -> Handle:
    good = rig.memory.put(FILE)
    return rig.memory.handle(f"{good.name}\0", 0, len(FILE))


def a_name_that_goes_on_behind_a_line(rig: SharedRig) -> Handle:
    good = rig.memory.put(FILE)
    return rig.memory.handle(f"{good.name}\n", 0, len(FILE))


def a_name_in_capitals(rig: SharedRig) -> Handle:
    name = rig.memory.name().upper().replace("MONOPATH", "monopath")
    (rig.directory / name).write_bytes(FILE)
    return rig.memory.handle(name, 0, len(FILE))


def the_directory_itself(rig: SharedRig) -> Handle:
    return rig.memory.handle(".", 0, len(FILE))


def an_owners_file(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.owner_name, 0, len(FILE))


def nobodys_name(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.name(), 0, len(FILE))


def another_file(rig: SharedRig) -> Handle:
    return rig.memory.handle(secret_file(rig).name, 0, len(FILE))


# ---- what bears the name of a segment


def a_link_to_a_file(rig: SharedRig) -> Handle:
    name = rig.memory.name()
    (rig.directory / name).symlink_to(secret_file(rig))
    return rig.memory.handle(name, 0, len(FILE))


def a_link_to_a_segment(rig: SharedRig) -> Handle:
    good, name = rig.memory.put(FILE), rig.memory.name()
    (rig.directory / name).symlink_to(rig.directory / good.name)
    return rig.memory.handle(name, 0, len(FILE))


def a_pipe(rig: SharedRig) -> Handle:
    name = rig.memory.name()
    os.mkfifo(rig.directory / name)
    return rig.memory.handle(name, 0, len(FILE))


def a_socket(rig: SharedRig) -> Handle:
    name = rig.memory.name()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(rig.directory / name))
    return rig.memory.handle(name, 0, len(FILE))


def a_directory(rig: SharedRig) -> Handle:
    name = rig.memory.name()
    (rig.directory / name).mkdir()
    return rig.memory.handle(name, 0, len(FILE))


def a_terminal(rig: SharedRig) -> Handle:
    name = rig.memory.name()
    os.mknod(rig.directory / name, 0o600 | 0o020000, os.makedev(5, 0))
    return rig.memory.handle(name, 0, len(FILE))


# ---- ranges


def no_bytes(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, 0, 0)


def one_byte_past_the_end(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, 1, len(FILE))


def an_offset_at_the_end(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, len(FILE), 1)


def a_vast_length(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, 0, 2**62)


def the_largest_length(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, 1, 2**64 - 1)


def an_offset_that_is_negative_to_others(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, 2**63, len(FILE))


def an_offset_of_63_bits(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, 2**63 - 1, len(FILE))


def an_offset_of_64_bits(rig: SharedRig) -> Handle:
    return rig.memory.handle(rig.memory.put(FILE).name, 2**64 - 1, len(FILE))


def a_segment_that_shrank(rig: SharedRig) -> Handle:
    handle = rig.memory.put(FILE)
    os.truncate(rig.directory / handle.name, len(FILE) - 1)
    return handle


def a_segment_that_was_taken_away(rig: SharedRig) -> Handle:
    handle = rig.memory.put(FILE)
    rig.memory.segments[handle.name].unlink()
    return handle


# ---- uses


def no_generation(rig: SharedRig) -> Handle:
    handle = rig.memory.put(FILE)
    handle.generation = 0
    return handle


def the_generation_of_the_handle_before(rig: SharedRig) -> Handle:
    handle = rig.memory.put(FILE)
    handle.generation -= 1
    return handle


HANDLES: tuple[MakeHandle, ...] = (
    a_name_with_a_slash,
    a_name_above_the_directory,
    an_absolute_name,
    a_name_with_a_nul,
    a_name_that_goes_on_behind_a_line,
    a_name_in_capitals,
    the_directory_itself,
    an_owners_file,
    nobodys_name,
    another_file,
    a_link_to_a_file,
    a_link_to_a_segment,
    a_pipe,
    a_socket,
    a_directory,
    a_terminal,
    no_bytes,
    one_byte_past_the_end,
    an_offset_at_the_end,
    a_vast_length,
    the_largest_length,
    an_offset_that_is_negative_to_others,
    an_offset_of_63_bits,
    an_offset_of_64_bits,
    a_segment_that_shrank,
    a_segment_that_was_taken_away,
    no_generation,
    the_generation_of_the_handle_before,
)


WITH_OTHER_LENGTHS = (no_bytes, an_offset_at_the_end, a_vast_length, the_largest_length)
"""These are of another length than `FILE`."""


def secret_file(rig: SharedRig) -> Path:
    """A good image that no handle may lead to: features of it would show that it was opened."""
    path = rig.directory / "secret"
    path.write_bytes(FILE)
    return path
