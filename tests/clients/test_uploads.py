"""Images and features on their way to a server over shared memory."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monopath import Client, GridThw, Item, LocalFeatures, RawImage, Result, Size
from monopath._client_segments import ClientSegments
from monopath._upload import MIN_UPLOAD_BYTES, UploadPool
from monopath.shared_memory import SegmentOwner, SharedMemoryFull
from monopath.v1 import event_pb2
from tests.clients import wire
from tests.clients.drivers import KINDS, SHARED, map_all
from tests.clients.fake_server import Gate, Script, Servicer, serving
from tests.clients.segments import ServerMemory, serving_memory

CPU = wire.CPU
LARGE = MIN_UPLOAD_BYTES + 1


def _noting(memory: ServerMemory, seen: list[Any], *, limits: Any = wire.LIMITS) -> Script:
    """Return the script of a server that notes, of each image, whether it came by handle, and its bytes."""

    def answer(item: Any) -> list[Any]:
        kind = item.image.WhichOneof("content")
        content = getattr(item.image, kind)
        if content.WhichOneof("location") == "data":
            seen.append((kind, None, content.data))
        else:
            seen.append((kind, content.shared_memory, memory.load(content.shared_memory)))
        return CPU.whole_item(item.id)

    return serving_memory(memory, answer, limits=limits)


def _full(monkeypatch: pytest.MonkeyPatch, *, above_bytes: int = 4096) -> None:
    """Let every larger segment find its directory full."""
    real = os.posix_fallocate

    def allocate(descriptor: int, offset: int, size_bytes: int) -> None:
        if size_bytes > above_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor, offset, size_bytes)

    monkeypatch.setattr(os, "posix_fallocate", allocate)


@KINDS
def test_large_images_go_by_handle_and_small_ones_in_messages(kind: str, memory: ServerMemory, tmp_path: Path) -> None:
    large = bytes(range(256)) * (LARGE // 256 + 1)
    file = tmp_path / "image"
    file.write_bytes(large[::-1])
    pixels = np.random.default_rng(2).integers(0, 256, (200, 300, 3), np.uint8)
    images = [large, b"small", file, Item(RawImage(pixels[:, ::-1], "RGB8"), label="x"), RawImage(pixels[:2], "RGB8")]
    seen: list[Any] = []
    with serving(Servicer(_noting(memory, seen))) as address:
        results = map_all(kind, address, images, transport="shared_memory", directory=memory.directory)
    assert all(result.ok for result in results)
    assert [(kind, data) for kind, _, data in seen] == [
        ("encoded", large),
        ("encoded", b"small"),
        ("encoded", large[::-1]),
        ("pixels", pixels[:, ::-1].tobytes()),
        ("pixels", pixels[:2].tobytes()),
    ]
    assert [handle is not None for _, handle, _ in seen] == [True, False, True, True, False]
    assert all(handle.offset_bytes == 0 for _, handle, _ in seen if handle)


@KINDS
def test_features_of_the_local_path_go_by_handle(kind: str, memory: ServerMemory) -> None:
    seen: list[Any] = []
    local = wire.LOCAL

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield local.ready(shared_memory=memory.offer)
        for request in requests:
            if request.WhichOneof("payload") == "item":
                seen.append(request.item.features.size_bytes)
            elif request.WhichOneof("payload") == "item_features":
                seen.append(memory.load(request.item_features.shared_memory))
                yield from local.whole_item(request.item_features.id)
        yield local.summary(completed=1)

    array = np.random.default_rng(3).standard_normal((64, 3, 14, 14), np.float32)
    features = LocalFeatures(array[::-1], Size(112, 112), GridThw(1, 8, 8), token_count=16)
    with serving(Servicer(script)) as address:
        (result,) = map_all(
            kind, address, [features], method="local", transport="shared_memory", directory=memory.directory
        )
    assert result.cache is None
    assert seen == [array.nbytes, array[::-1].tobytes()]


def test_segments_are_used_again_and_each_use_is_a_later_one(memory: ServerMemory) -> None:
    seen: list[Any] = []
    images = [bytes([index]) * (LARGE + index) for index in range(20)]
    with serving(Servicer(_noting(memory, seen))) as address:
        map_all("sync", address, images, transport="shared_memory", directory=memory.directory)
    assert sorted(data for *_, data in seen) == images
    generations = [handle.generation for _, handle, _ in seen]
    assert all(later > earlier for earlier, later in itertools.pairwise(generations))
    assert len({handle.name for _, handle, _ in seen}) <= wire.LIMITS.max_unfinished_items


def test_generations_go_up_on_every_one_of_several_streams(memory: ServerMemory) -> None:
    seen: list[list[Any]] = []

    def script(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        seen.append([])
        yield from _noting(memory, seen[-1])(requests, context)

    with serving(Servicer(script)) as address:
        map_all("sync", address, [bytes(LARGE)] * 40, streams=3, transport="shared_memory", directory=memory.directory)
    assert sum(map(len, seen)) == 40
    for one in seen:
        generations = [handle.generation for _, handle, _ in one]
        assert all(later > earlier for earlier, later in itertools.pairwise(generations))


def test_a_segment_is_not_used_again_before_its_item_has_ended(memory: ServerMemory) -> None:
    names: list[str] = []
    gate = Gate()

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield CPU.ready(shared_memory=memory.offer)
        held = next(requests).item
        names.append(held.image.encoded.shared_memory.name)
        for _ in range(2):
            item = next(requests).item
            names.append(item.image.encoded.shared_memory.name)
            yield from CPU.whole_item(item.id)
        gate.wait()
        assert memory.load(held.image.encoded.shared_memory) == b"1" * LARGE
        yield from CPU.whole_item(held.id)
        names.append(next(requests).item.image.encoded.shared_memory.name)
        yield from CPU.whole_item(4)
        for _ in requests:
            pass
        yield CPU.summary(completed=4)

    with (
        serving(Servicer(script)) as address,
        Client(address, shared_memory_directory=memory.directory) as client,
        client.deferred_cpu(**SHARED) as stream,
    ):
        ends = (event.id for event in stream.events() if isinstance(event, Result))
        stream.send(b"1" * LARGE)
        for item_id in (2, 3):
            assert stream.send(b"2" * LARGE) == item_id
            assert next(ends) == item_id
        gate.open()
        assert next(ends) == 1
        stream.send(b"4" * LARGE)
        assert next(ends) == 4
    assert names[1] == names[2] != names[0]
    assert names[3] == names[0]


@KINDS
def test_what_has_no_room_in_shared_memory_goes_in_messages(
    kind: str, memory: ServerMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    _full(monkeypatch)
    with serving(Servicer(_noting(memory, seen))) as address:
        results = map_all(kind, address, [bytes(LARGE)], transport="shared_memory", directory=memory.directory)
    assert results[0].ok
    assert [(handle, len(data)) for _, handle, data in seen] == [(None, LARGE)]


@KINDS
def test_an_image_that_no_message_can_hold_goes_by_handle_or_fails_alone(
    kind: str, memory: ServerMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = event_pb2.StreamLimits()
    limits.CopyFrom(wire.LIMITS)
    limits.max_request_bytes = LARGE
    too_large = bytes(2 * LARGE)
    seen: list[Any] = []
    with serving(Servicer(_noting(memory, seen, limits=limits))) as address:
        arguments: dict[str, Any] = {"transport": "shared_memory", "directory": memory.directory}
        results = map_all(kind, address, [too_large, b"small"], **arguments)
        assert [result.ok for result in results] == [True, True]
        _full(monkeypatch)
        results = map_all(kind, address, [too_large, b"small"], order="as_sent", **arguments)
    assert [result.error and result.error.reason for result in results] == ["IMAGE_BYTES_EXCEEDED", None]
    assert [len(data) for *_, data in seen] == [len(too_large), 5, 5]


@KINDS
def test_an_image_is_uploaded_again_to_the_next_stream(kind: str, memory: ServerMemory) -> None:
    seen: list[Any] = []
    good = _noting(memory, seen)

    def dying(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        import grpc

        next(requests)
        yield CPU.ready(shared_memory=memory.offer)
        seen.append(next(requests).item.image.encoded.shared_memory.name)
        context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    with serving(Servicer(dying, good)) as address:
        results = map_all(kind, address, [b"x" * LARGE], transport="shared_memory", directory=memory.directory)
    assert results[0].ok
    assert seen[1][2] == b"x" * LARGE


def test_an_upload_that_has_ended_is_neither_written_nor_given_back_again(tmp_path: Path) -> None:
    with SegmentOwner(tmp_path) as owner:
        pool = UploadPool(owner)
        first = pool.take(100)
        handle = first.write(np.frombuffer(b"abc", np.uint8))
        assert handle is not None
        assert (handle.length_bytes, handle.offset_bytes, handle.generation) == (3, 0, 1)
        first.end()
        assert first.write(np.zeros(3, np.uint8)) is None
        second = pool.take(100)
        first.end()
        third = pool.take(100)
        names = {upload.write(np.zeros(1, np.uint8)).name for upload in (second, third)}  # type: ignore[union-attr]
        assert len(names) == 2
        assert handle.name in names


def test_idle_segments_are_bounded(tmp_path: Path) -> None:
    with SegmentOwner(tmp_path) as owner:
        pool = UploadPool(owner, idle_bytes=3 * 64 * 1024)
        uploads = [pool.take(60_000) for _ in range(5)]
        assert _segment_sizes(tmp_path) == [64 * 1024] * 5
        for upload in uploads:
            upload.end()
        assert _segment_sizes(tmp_path) == [64 * 1024] * 3


def test_idle_segments_make_room_for_one_of_another_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.posix_fallocate

    def allocate(descriptor: int, offset: int, size_bytes: int) -> None:
        if sum(_segment_sizes(tmp_path)) + size_bytes > 512 * 1024:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor, offset, size_bytes)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    with SegmentOwner(tmp_path) as owner:
        pool = UploadPool(owner)
        for upload in [pool.take(60_000) for _ in range(4)]:
            upload.end()
        large = pool.take(400_000)
        assert _segment_sizes(tmp_path) == [448 * 1024]
        with pytest.raises(SharedMemoryFull):
            pool.take(100_000)
        large.end()
        pool.take(100_000)


def _segment_sizes(directory: Path) -> list[int]:
    """Return the sizes of all segments, without the owner's own file."""
    return sorted(size for entry in directory.iterdir() if (size := entry.stat().st_size))


def test_a_client_makes_nothing_before_its_first_stream_over_shared_memory(tmp_path: Path) -> None:
    segments = ClientSegments(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert segments.open() is segments.open()
    assert len(list(tmp_path.iterdir())) == 2
    segments.close()
    segments.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="Expected an open client"):
        segments.open()
