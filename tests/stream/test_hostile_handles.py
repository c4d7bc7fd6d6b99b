"""Case 11: handles that lead elsewhere, or nowhere. Each fails its own item; nothing else is opened or lost."""

from __future__ import annotations

import asyncio
import os

import grpc
import pytest

from monopath.v1 import error_pb2, location_pb2, tensor_pb2
from monopath_server.delivery.uploads import SegmentBytes
from monopath_server.media.limits import ImageLimits
from tests.stream.hostile_handles import FILE, HANDLES, WITH_OTHER_LENGTHS, MakeHandle
from tests.stream.shared_rig import SharedRig, finished, shared_rig
from tests.stream.test_local import announce, header
from tests.stream.test_shared_memory import local_bytes
from tests.support.footprint import settle
from tests.support.options import reason_traits
from tests.support.segments import located_features, located_file, located_pixels
from tests.support.server import quick_settings
from tests.support.stream import RawStream, encoded, make_item, running_rig

ANSWER_SECONDS = 20.0
"""Bounds a test that hangs; nothing here is measured."""


def error_of(stream: RawStream, item_id: int) -> error_pb2.ItemError:
    error = stream.outcomes[item_id].error
    assert error is not None, f"Expected item {item_id} to fail, got {stream.outcomes[item_id].completion}"
    return error


def test_an_invalid_handle_is_an_invalid_argument() -> None:
    for reason in (
        error_pb2.ITEM_ERROR_REASON_HANDLE_INVALID,
        error_pb2.ITEM_ERROR_REASON_FEATURES_INCOMPLETE,
    ):
        traits = reason_traits(error_pb2.ItemErrorReason.DESCRIPTOR, reason)
        assert traits is not None
        assert traits.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


def assert_refused(
    rig: SharedRig, stream: RawStream, item_id: int, field: str, make_handle: MakeHandle | None = None
) -> None:
    error = error_of(stream, item_id)
    assert stream.outcomes[item_id].reason == "HANDLE_INVALID", make_handle
    assert error.field in (field, f"{field}.generation"), make_handle
    assert "Expected" in error.message, make_handle
    for secret in (str(rig.directory), "Traceback", "Errno"):
        assert secret not in error.message


@pytest.mark.parametrize("kind", ["file", "pixels"])
@pytest.mark.asyncio
async def test_images_behind_hostile_handles_fail_alone(kind: str) -> None:
    async with shared_rig() as rig:
        expected = (await rig.run([make_item(1, encoded(FILE))])).outcomes[1].sha256
        stream = await rig.open_shared()
        async with asyncio.timeout(ANSWER_SECONDS):
            for index, make_handle in enumerate(HANDLES):
                handle = make_handle(rig)
                image = located_file(handle) if kind == "file" else located_pixels(handle, 50, 40)
                good = located_file(rig.memory.put(FILE))
                await stream.send(make_item(3 * index + 1, image), make_item(3 * index + 2, good))
                await stream.send(make_item(3 * index + 3, encoded(FILE)))
            assert await stream.finish(grammar=False) == "OK"
        field = f"image.{'encoded' if kind == 'file' else 'pixels'}.shared_memory"
        for index, make_handle in enumerate(HANDLES):
            assert_refused(rig, stream, 3 * index + 1, field, make_handle)
            assert stream.outcomes[3 * index + 1].plan is None
            for item_id in (3 * index + 2, 3 * index + 3):
                assert stream.outcomes[item_id].sha256 == expected, make_handle
        assert (await settle(rig.server)).is_idle


@pytest.mark.asyncio
async def test_finished_features_behind_hostile_handles_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shared_rig() as rig:
        data = await local_bytes(rig)
        # What the handles claim is as long as what is announced, where they do not lie about that.
        monkeypatch.setattr("tests.stream.hostile_handles.FILE", data)
        uint8 = {"data_type": tensor_pb2.DATA_TYPE_UINT8, "size_bytes": len(data)}
        stream = await rig.open_shared("local", data_type=tensor_pb2.DATA_TYPE_UINT8)
        async with asyncio.timeout(ANSWER_SECONDS):
            for index, make_handle in enumerate(HANDLES):
                bad, good = 2 * index + 1, 2 * index + 2
                await stream.send(announce(header(bad, **uint8)), located_features(bad, make_handle(rig)))
                await stream.send(announce(header(good, **uint8)), located_features(good, rig.memory.put(data)))
            assert await stream.finish(grammar=False) == "OK"
        for index, make_handle in enumerate(HANDLES):
            if make_handle in WITH_OTHER_LENGTHS:
                assert stream.outcomes[2 * index + 1].reason in ("FEATURES_INCOMPLETE", "HANDLE_INVALID")
            else:
                assert_refused(rig, stream, 2 * index + 1, "item_features.shared_memory", make_handle)
            assert bytes(stream.outcomes[2 * index + 2].data) == data, make_handle
        assert (await settle(rig.server)).is_idle


@pytest.mark.asyncio
async def test_vast_lengths_are_charged_to_nobody() -> None:
    """Neither the sums of the stream nor the budget of the process take a client's word for a length."""
    async with shared_rig(max_process_bytes=4 << 20, max_process_items=64) as rig:
        neighbour = await rig.open()
        stream, local = await rig.open_shared(), await rig.open_shared("local", data_type=tensor_pb2.DATA_TYPE_UINT8)
        data = await local_bytes(rig)
        uint8 = {"data_type": tensor_pb2.DATA_TYPE_UINT8, "size_bytes": len(data)}
        for item_id in range(1, 21):
            vast = rig.memory.handle(rig.memory.put(FILE).name, 0, 2**64 - item_id)
            await stream.send(make_item(item_id, located_file(vast)))
            await local.send(announce(header(item_id, **uint8)), located_features(item_id, vast))
            await neighbour.send(make_item(item_id, encoded(FILE)))
        sparse = rig.memory.put(FILE)
        os.truncate(rig.directory / sparse.name, 2**40)
        sparse.length_bytes = 2**40
        await stream.send(make_item(21, located_file(sparse)))
        assert await stream.finish(grammar=False) == "OK"
        assert await local.finish(grammar=False) == "OK"
        await finished(neighbour)
        assert all(outcome.completion is not None for outcome in neighbour.outcomes.values())
        assert {outcome.reason for item_id, outcome in stream.outcomes.items() if item_id < 21} == {"HANDLE_INVALID"}
        assert {outcome.reason for outcome in local.outcomes.values()} <= {"HANDLE_INVALID", "FEATURES_INCOMPLETE"}
        assert stream.outcomes[21].reason == "IMAGE_BYTES_EXCEEDED"
        for each in (stream, local):
            assert each.summary is not None
            assert each.summary.failed_count == len(each.outcomes)
            assert each.summary.received_bytes < 1 << 30


@pytest.mark.asyncio
async def test_an_image_over_its_limit_is_not_read() -> None:
    limits = ImageLimits(max_encoded_bytes=len(FILE))
    async with shared_rig(image_limits=limits) as rig:
        stream = await rig.open_shared()
        await stream.send(
            make_item(1, located_file(rig.memory.put(FILE + b"x"))), make_item(2, located_file(rig.memory.put(FILE)))
        )
        await finished(stream)
    assert stream.outcomes[1].reason == "IMAGE_BYTES_EXCEEDED"
    for number in (len(FILE), len(FILE) + 1):
        assert str(number) in error_of(stream, 1).message
    assert stream.outcomes[2].completion is not None


@pytest.mark.asyncio
async def test_a_handle_is_taken_once() -> None:
    async with shared_rig() as rig:
        stream, other = await rig.open_shared(), await rig.open_shared()
        handle = rig.memory.put(FILE)
        await stream.send(*(make_item(item_id, located_file(handle)) for item_id in (1, 2, 3)))
        older = rig.memory.put(FILE)
        newer = rig.memory.put(FILE)
        await stream.send(make_item(4, located_file(newer)), make_item(5, located_file(older)))
        await stream.send(make_item(6, located_file(rig.memory.put(FILE))))
        await other.send(make_item(1, located_file(handle)))  # generations are each stream's own
        await finished(stream)
        await finished(other)
    reasons = [stream.outcomes[item_id].reason for item_id in range(1, 7)]
    assert reasons == ["", "HANDLE_INVALID", "HANDLE_INVALID", "", "HANDLE_INVALID", ""]
    assert error_of(stream, 2).field == "image.encoded.shared_memory.generation"
    assert other.outcomes[1].completion is not None


@pytest.mark.asyncio
async def test_a_handle_without_a_name_is_a_wrong_field() -> None:
    async with shared_rig() as rig:
        stream = await rig.open_shared()
        await stream.send(
            make_item(1, located_file(rig.memory.handle("", 0, 1))),
            make_item(2, located_file(rig.memory.handle("m" * 129, 0, 1))),
        )
        await finished(stream)
    for item_id in (1, 2):
        assert stream.outcomes[item_id].reason == "FIELD_INVALID"
        assert error_of(stream, item_id).field == "image.encoded.shared_memory.name"


@pytest.mark.asyncio
async def test_a_handle_on_an_inline_stream_is_refused_and_not_looked_at() -> None:
    async with shared_rig() as rig:
        stream, local = await rig.open(), await rig.open(path="local")
        await stream.send(
            make_item(1, located_file(rig.memory.put(FILE))),
            make_item(2, located_pixels(rig.memory.put(bytes(12)), 2, 2)),
            make_item(3, encoded(FILE)),
        )
        await local.send(announce(header(1)), located_features(1, rig.memory.put(bytes(24 * 588 * 4))))
        await finished(stream)
        await finished(local)
    assert [stream.outcomes[item_id].reason for item_id in (1, 2, 3)] == ["LOCATION_UNSUPPORTED"] * 2 + [""]
    assert local.outcomes[1].reason == "LOCATION_UNSUPPORTED"
    assert error_of(stream, 1).field == "image.encoded.shared_memory"
    assert error_of(stream, 2).field == "image.pixels.shared_memory"
    assert error_of(local, 1).field == "item_features.shared_memory"


@pytest.mark.asyncio
async def test_a_handle_to_a_server_without_shared_memory_is_refused() -> None:
    async with running_rig(quick_settings(max_shared_memory_bytes=0)) as rig:
        name = "monopath-" + "0" * 32 + "-" + "0" * 32
        stream = await rig.open()
        await stream.send(
            make_item(1, located_file(location_pb2.SharedMemoryHandle(name=name, length_bytes=1, generation=1)))
        )
        await finished(stream)
    assert stream.outcomes[1].reason == "LOCATION_UNSUPPORTED"


@pytest.mark.asyncio
async def test_a_segment_that_shrinks_before_it_is_read_fails_its_item(monkeypatch: pytest.MonkeyPatch) -> None:
    real_load, real_read = SegmentBytes.load, SegmentBytes.read_into

    def shrink(found: SegmentBytes) -> None:
        os.truncate(found.directory / found.name, found.length_bytes // 2)

    def load(found: SegmentBytes) -> bytes:
        shrink(found)
        return real_load(found)

    def read_into(found: SegmentBytes, memory: memoryview) -> None:
        shrink(found)
        real_read(found, memory)

    async with shared_rig() as rig:
        data = await local_bytes(rig)
        uint8 = {"data_type": tensor_pb2.DATA_TYPE_UINT8, "size_bytes": len(data)}
        monkeypatch.setattr(SegmentBytes, "load", load)
        monkeypatch.setattr(SegmentBytes, "read_into", read_into)
        stream, local = await rig.open_shared(), await rig.open_shared("local", data_type=tensor_pb2.DATA_TYPE_UINT8)
        await stream.send(make_item(1, located_file(rig.memory.put(FILE))), make_item(2, encoded(FILE)))
        await local.send(announce(header(1, **uint8)), located_features(1, rig.memory.put(data)))
        await finished(stream)
        await finished(local)
        assert_refused(rig, stream, 1, "image.encoded.shared_memory")
        assert_refused(rig, local, 1, "item_features.shared_memory")
    assert stream.outcomes[2].completion is not None
