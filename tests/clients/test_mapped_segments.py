"""Mappings of a server's segments: always what the server wrote last, private to this process, and soon gone."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monopath import _mapped_segment, shared_memory
from monopath._mapped_segment import SegmentMappings
from monopath.shared_memory import HEADER_BYTES, SegmentError, SegmentOwner, WritableSegment, write_generation

LENGTH_BYTES = 20_000


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[SegmentOwner]:
    with SegmentOwner(tmp_path) as owner:
        yield owner


class Server:
    """A segment that is used again and again."""

    def __init__(self, owner: SegmentOwner) -> None:
        self.segment: WritableSegment = owner.create(HEADER_BYTES + LENGTH_BYTES)
        self.generation = 0

    def write(self, value: int) -> int:
        """Begin another use, with one value everywhere. Returns its generation."""
        self.generation += 1
        write_generation(self.segment.memory, self.generation)
        self.segment.memory[HEADER_BYTES:] = bytes([value]) * LENGTH_BYTES
        return self.generation

    def mapped(self, mappings: SegmentMappings, length_bytes: int = LENGTH_BYTES) -> Any:
        """The present use, as a client gets it."""
        return np.asarray(mappings.map_bytes(self.segment.name, HEADER_BYTES, length_bytes, self.generation))

    def mapping_count(self) -> int:
        """Mappings of the segment in this process, the server's own one included."""
        return Path("/proc/self/maps").read_text().count(self.segment.name)


def test_a_mapping_stays_readable_whatever_becomes_of_its_segment(tmp_path: Path) -> None:
    owner = SegmentOwner(tmp_path)
    server = Server(owner)
    server.write(7)
    mappings = SegmentMappings(tmp_path)
    array = server.mapped(mappings)
    server.segment.unlink()
    owner.close()
    mappings.close()
    assert set(array) == {7}
    array[:] = 0
    assert set(server.segment.memory[HEADER_BYTES:]) == {7}
    with pytest.raises(SegmentError):
        server.mapped(SegmentMappings(tmp_path))


def test_a_segment_that_is_used_again_is_not_mapped_again_and_shows_what_is_new(
    owner: SegmentOwner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, mappings = Server(owner), SegmentMappings(tmp_path)
    opened: list[str] = []

    def open_segment(directory: Path, name: str) -> tuple[int, int]:
        opened.append(name)
        return shared_memory._open_foreign(directory, name)

    monkeypatch.setattr(_mapped_segment, "_open_foreign", open_segment)
    for value in range(5):
        server.write(value)
        array = server.mapped(mappings, LENGTH_BYTES - value * 4000)
        assert set(array) == {value}
        del array
    assert len(opened) == 1


def test_what_was_written_to_is_mapped_anew(owner: SegmentOwner, tmp_path: Path) -> None:
    server, mappings = Server(owner), SegmentMappings(tmp_path)
    for index in (0, LENGTH_BYTES // 2, LENGTH_BYTES - 1):
        server.write(1)
        array = server.mapped(mappings)
        array[index] = 99
        assert set(server.segment.memory[HEADER_BYTES:]) == {1}
        del array
        server.write(2)
        assert set(server.mapped(mappings)) == {2}


def test_two_results_in_one_segment_do_not_share_a_mapping(owner: SegmentOwner, tmp_path: Path) -> None:
    server, mappings = Server(owner), SegmentMappings(tmp_path)
    server.write(3)
    first, second = server.mapped(mappings), server.mapped(mappings)
    first[:] = 50
    assert set(second) == {3}
    del first, second
    gc.collect()
    assert server.mapping_count() == 2
    mappings.close()
    assert server.mapping_count() == 1


def test_a_mapping_is_not_used_again_while_any_array_lies_over_it(owner: SegmentOwner, tmp_path: Path) -> None:
    server, mappings = Server(owner), SegmentMappings(tmp_path)
    server.write(3)
    array = server.mapped(mappings)
    view = array[10:].reshape(-1, 10)[1:]
    del array
    again = server.mapped(mappings)
    assert server.mapping_count() == 3
    del view, again
    mappings.close()
    assert server.mapping_count() == 1


def test_another_use_than_the_handles_is_refused_and_leaves_nothing_mapped(owner: SegmentOwner, tmp_path: Path) -> None:
    server, mappings = Server(owner), SegmentMappings(tmp_path)
    for is_mapped_before in (False, True):
        server.write(3)
        if is_mapped_before:
            server.mapped(mappings)
        with pytest.raises(SegmentError, match="Expected a segment in use 99, got one in another"):
            mappings.map_bytes(server.segment.name, HEADER_BYTES, 10, 99)
        with pytest.raises(SegmentError, match="Expected 1 byte or more within a segment of"):
            mappings.map_bytes(server.segment.name, HEADER_BYTES, LENGTH_BYTES + 1, server.generation)
        assert server.mapping_count() == 1


def test_where_the_kernel_does_not_tell_what_was_written_nothing_is_used_again(
    owner: SegmentOwner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mapped_segment, "_PAGEMAP", str(tmp_path / "none"))
    server, mappings = Server(owner), SegmentMappings(tmp_path)
    server.write(1)
    array = server.mapped(mappings)
    array[5] = 9
    del array
    server.write(2)
    assert set(server.mapped(mappings)) == {2}
    mappings.close()
    assert server.mapping_count() == 1


def test_what_stays_mapped_is_bounded_and_goes_with_the_stream(owner: SegmentOwner, tmp_path: Path) -> None:
    servers = [Server(owner) for _ in range(5)]
    mappings = SegmentMappings(tmp_path, idle_bytes=2 * servers[0].segment.size_bytes)
    for server in servers:
        server.write(1)
        server.mapped(mappings)
    assert [server.mapping_count() for server in servers] == [1, 1, 1, 2, 2]
    held = servers[0].mapped(mappings)
    mappings.close()
    assert [server.mapping_count() for server in servers] == [2, 1, 1, 1, 1]
    assert set(held) == {1}
    del held
    assert servers[0].mapping_count() == 1


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.tuples(st.sampled_from(("use", "write", "drop", "keep")), st.integers(0, 2)), max_size=25),
)
def test_every_array_shows_its_own_use_whatever_was_done_before(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("segments")
    with SegmentOwner(directory) as owner:
        servers, mappings = [Server(owner) for _ in range(3)], SegmentMappings(directory)
        last: list[Any] = [None] * 3
        value = 0
        for step, number in steps:
            server = servers[number]
            match step:
                case "use":
                    # As with leases: a segment has another use once nobody reads it.
                    last[number] = None
                    value = (value + 1) % 200
                    server.write(value)
                    last[number] = server.mapped(mappings)
                    assert set(last[number]) == {value}
                case "write" if last[number] is not None:
                    last[number][number::4096] = 255
                case "drop":
                    last[number] = None
                case "keep" if last[number] is not None:
                    assert set(server.mapped(mappings)) == {server.segment.memory[HEADER_BYTES]}
        mappings.close()
